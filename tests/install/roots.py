"""Fresh roots of Debian, made by mmdebstrap from the mirror that this machine installs from."""
import contextlib
import os
import shutil
import subprocess


def missing():
    """Why no root can be made here; "": one can."""
    if os.uname().machine != "x86_64":
        return "not x86-64"
    if os.getuid() != 0:
        return "not root"
    if not shutil.which("mmdebstrap"):
        return "mmdebstrap is not here"
    return "" if mirror() else "apt knows no mirror of Debian"


def mirror():
    sites = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"], check=True, capture_output=True,
                           text=True).stdout.split()
    return next((s for s in sites if s.rstrip("/").endswith("/debian")), "")


@contextlib.contextmanager
def fresh_root(suite, folder, packages=()):
    """The folder with apt and the packages, /proc mounted as in a container."""
    include = [f"--include={','.join(packages)}"] if packages else []
    made = subprocess.run(["mmdebstrap", "--variant=apt", "--mode=root", *include, suite, folder, mirror()], capture_output=True, text=True)
    if made.returncode != 0:
        raise SystemExit("no root of " + suite + ": " + made.stderr[-2000:])
    proc = os.path.join(folder, "proc")
    subprocess.run(["mount", "-t", "proc", "proc", proc], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", proc], check=True)


def inside(root, *command):
    """Standard output of a command in the root, in its /tmp."""
    done = subprocess.run(["chroot", root, "sh", "-c", 'cd /tmp && "$@"', "sh", *(str(c) for c in command)], capture_output=True, text=True,
                          env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp", "DEBIAN_FRONTEND": "noninteractive",
                               "LC_ALL": "C.UTF-8"})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(str(c) for c in command)}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout
