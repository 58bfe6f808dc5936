"""Pages in headless Chromium, driven through chromedriver (WebDriver, https://www.w3.org/TR/webdriver2/): opened at a size and in
a colour scheme, asked, photographed, and judged by what the console says. Debian: chromium, chromium-driver."""
import base64
import json
import shutil
import subprocess
import urllib.request

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
INSTALLED = bool(CHROMIUM and DRIVER)


class Browser:
    """`with Browser() as b`: one window."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = None
        for line in self.driver.stdout:
            if "successfully on port " in line:
                port = int(line.split("on port ")[1].rstrip(" .\n"))
                break
        self.root = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={self.folder}/profile"]
        options = {"binary": CHROMIUM, "args": arguments}
        wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        try:
            self.session = self.call("POST", "/session", {"capabilities": wanted})["sessionId"]
        except BaseException:
            self.driver.kill()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data=data, method=method, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def command(self, path, body=None):
        return self.call("POST", f"/session/{self.session}{path}", {} if body is None else body)

    def devtools(self, name, **parameters):
        return self.command("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def open(self, path, width=1440, height=900, dark=False):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.command("/url", {"url": path.as_uri()})

    def run(self, script, *arguments):
        """The result of the body of a function."""
        return self.command("/execute/sync", {"script": script, "args": list(arguments)})

    def later(self, script, *arguments):
        """The value that a script hands to its last argument, a function."""
        return self.command("/execute/async", {"script": script, "args": list(arguments)})

    def keys(self, text, selector):
        element = self.command("/element", {"using": "css selector", "value": selector})
        self.command(f"/element/{next(iter(element.values()))}/value", {"text": text})

    def click(self, x, y):
        """Pixels of the window."""
        pointer = [{"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.command("/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": pointer}]})

    def console(self):
        """Errors and warnings since the last call."""
        return [e["message"] for e in self.command("/se/log", {"type": "browser"}) if e["level"] in ("SEVERE", "WARNING")]

    def photograph(self, path, whole=False):
        """The window, or the whole page."""
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
