"""Inputs of the kind that each shared model is for, made from stored images and from generators with
seeds, and what tells whether a quantized model still does its task.

samples(model, path, count, seed) gives a dict of arrays whose axis 0 counts the samples; different
seeds share no sample. METRICS[model](golden, candidate), over the outputs of all samples, is
(text, loss in points); 0.5 is the most that is asked for."""
import glob
import os
import sysconfig

import judging
from judging import np

SPEECH_RATE = 16000
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def stored(name):
    return np.load(os.path.join(judging.data_folder(), "labelled", name))


def chosen(data, count, seed):
    """`count` rows; of each four neighbouring rows one seed, modulo 4, gets one."""
    rows = np.arange(seed % 4, len(data), 4)
    return data[np.random.default_rng(seed).permutation(rows)[:count]]


def resized(x, height, width):
    """Bilinear, centres of pixels aligned."""
    def places(n, to):
        p = np.clip((np.arange(to) + 0.5) * n / to - 0.5, 0, n - 1)
        low = p.astype(int)
        return low, np.minimum(low + 1, n - 1), (p - low).astype(np.float32)
    top, bottom, fy = places(x.shape[1], height)
    left, right, fx = places(x.shape[2], width)
    x = x.astype(np.float32)
    fy, fx = fy[None, :, None, None], fx[None, None, :, None]
    rows = x[:, top] * (1 - fy) + x[:, bottom] * fy
    return rows[:, :, left] * (1 - fx) + rows[:, :, right] * fx


def photos(height, width, scale=1 / 255, shift=0.0, planar=True):
    def make(count, seed):
        x = resized(chosen(stored("imagenet_dev_256x256_u8_nhwc.npy"), count, seed), height, width)
        x = (x * np.float32(scale) - np.float32(shift)).astype(np.float32)
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if planar else x
    return make


def grey(height, width):
    def make(count, seed):
        return photos(height, width)(count, seed).mean(1, keepdims=True).astype(np.float32)
    return make


def written(height, width, lines):
    """Rows of handwritten digits over a photo."""
    def make(count, seed):
        random = np.random.default_rng(seed)
        digits = chosen(stored("mnist_dev_images_u8.npy").reshape(-1, 28, 28), 4000, seed)
        pages = resized(chosen(stored("imagenet_dev_256x256_u8_nhwc.npy"), count, seed), height,
                        width) / 255
        for page in pages:
            page[:] = page * 0.3 + 0.7 * random.uniform(0.5, 1, 3)
            for k in range(lines):
                y = int((k + 0.5) * height / lines) - 14
                end = random.integers(width // 2, width - 28)
                for x in range(int(random.integers(0, width // 4)), int(end), 20):
                    ink = digits[random.integers(len(digits)), :, :, None] / 255
                    page[y:y + 28, x:x + 28] *= 1 - ink
        return np.ascontiguousarray(((pages - 0.5) / 0.5).transpose(0, 3, 1, 2).astype(np.float32))
    return make


def speech(length, seed_and_index, rate=SPEECH_RATE):
    """Voiced and unvoiced stretches and pauses: harmonics of a gliding tone under moving formants."""
    random = np.random.default_rng(seed_and_index)
    t = np.arange(length) / rate
    pitch = random.uniform(90, 240) * (1 + 0.15 * np.sin(2 * np.pi * random.uniform(.5, 3) * t))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    formants = [random.uniform(*r) for r in ((300, 800), (900, 2200), (2300, 3200))]
    voice = np.zeros(length)
    for h in range(1, 30):
        f = h * pitch.mean()
        if f < rate / 2:
            voice += sum(np.exp(-((f - c) / 250)**2) for c in formants) * np.sin(h * phase) + \
                0.02 * np.sin(h * phase)
    knots = np.linspace(0, length, max(2, int(length / rate * 12)) + 1)
    loud = np.interp(np.arange(length), knots, random.uniform(0, 1, len(knots))**2)
    hiss = random.standard_normal(length) * np.interp(
        np.arange(length), knots, 0.1 * random.uniform(0, 1, len(knots))**3)
    x = voice / np.abs(voice).max() * loud + hiss
    x = 10**random.uniform(-1.5, -0.2) * x / np.abs(x).max()
    return (x + 10**random.uniform(-4, -2) * random.standard_normal(length)).astype(np.float32)


def clips(length, rate=SPEECH_RATE):
    return lambda count, seed: np.stack([speech(length, (seed, i), rate) for i in range(count)])


def in_stream(path, count, seed, audio, state):
    """Pieces out of streams, each with the state that the model itself had reached."""
    session = judging.session_of(path, True)
    rows = {name: [] for name in (audio, state)}
    shape = [i.shape for i in session.get_inputs() if i.name == state][0]
    for i in range(count):
        hop, length = (512, 576) if "silero" in path else (128, 512)
        x = speech(length + 40 * hop, (seed, i))
        now, stop = np.zeros(shape, np.float32), 2 + (7 * i) % 38
        for k in range(stop + 1):
            part = x[k * hop:k * hop + length]
            if "dtln_1" in path:
                part = np.abs(np.fft.rfft(part))
            part = part.astype(np.float32).reshape(
                [d for d in [n.shape for n in session.get_inputs() if n.name == audio][0]])
            if k == stop:
                rows[audio].append(part)
                rows[state].append(now)
            now = session.run(None, {audio: part, state: now})[1]
    return {k: np.stack(v) for k, v in rows.items()}


def sampled_stories(path, count, length, seed, temperature=0.9):
    """Text that the model itself writes."""
    model = judging.session_of(path, True)
    random = np.random.default_rng(seed)
    caches = [i.name for i in model.get_inputs() if i.name.startswith("past")]
    empty = np.zeros((count, 4, 0, 8), np.float32)
    past, now = dict.fromkeys(caches, empty), np.ones((count, 1), np.int64)
    ids = now
    for step in range(length - 1):
        feeds = {"input_ids": now, "position_ids": np.full((count, 1), step, np.int64), **past}
        outputs = dict(zip([o.name for o in model.get_outputs()], model.run(None, feeds)))
        past = {n: outputs[n.replace("past_key_values", "present")] for n in caches}
        scores = outputs["logits"][:, -1].astype(np.float64) / temperature
        p = np.exp(scores - scores.max(1, keepdims=True))
        now = np.array([[random.choice(p.shape[1], p=row / row.sum())] for row in p])
        ids = np.concatenate([ids, now], 1)
    positions = np.tile(np.arange(length)[None], (count, 1))
    return {"input_ids": ids, "position_ids": positions, **dict.fromkeys(caches, empty)}


def source_files():
    """First and last bytes of files, as the classifier takes them, 256 between them."""
    folders = ("lib", "runtime", "tools", "docs", "tests", "passes", "quant", "datasets")
    names = [n for folder in folders
             for n in glob.glob(os.path.join(ROOT, folder, "**", "*.*"), recursive=True)]
    names += glob.glob(os.path.join(sysconfig.get_paths()["stdlib"], "*.py"))
    rows = {}
    for name in sorted(n for n in names if os.path.isfile(n)):
        with open(name, "rb") as f:
            text = f.read()
        head, tail = text[:4096].lstrip()[:1024], text[-4096:].rstrip()[-1024:]
        row = np.full(4096, 256, np.int32)
        row[:len(head)] = np.frombuffer(head, np.uint8)
        row[4096 - len(tail):] = np.frombuffer(tail, np.uint8)
        rows[row.tobytes()] = row
    return np.random.default_rng(1).permutation(np.array(list(rows.values())))


def texts(count, seed, length):
    rows = chosen(source_files(), count, seed)
    return rows if length is None else np.minimum(rows[:, :length], 255).astype(np.uint8)


def normal(shape, uniform=False):
    def make(count, seed):
        random = np.random.default_rng(seed)
        x = random.random((count, *shape)) if uniform else random.standard_normal((count, *shape))
        return x.astype(np.float32)
    return make


def stories(path, count, seed):
    """The second half of texts, with the caches of the first."""
    text = sampled_stories(path, count, 64, seed)
    ids = ("input_ids", "position_ids")
    first, last = ({k: v[:, half] if k in ids else v for k, v in text.items()}
                   for half in (slice(0, 32), slice(32, 64)))
    model = judging.session_of(path, True)
    outputs = dict(zip([o.name for o in model.get_outputs()], model.run(None, first)))
    return {k: v if k in ids else outputs[k.replace("past_key_values", "present")]
            for k, v in last.items()}


BGR = np.array([103.939, 116.779, 123.68], np.float32)
SINGLE = {  # one input
    "yolox_nano_coco": photos(416, 416, 1), "yunet_n_320": photos(320, 320, 1),
    "fastestdet": photos(352, 352), "tinyyolo_vnn": photos(52, 52),
    "ultraface_rfb320": photos(240, 320, 1 / 128, 127 / 128),
    "ultraface_rfb320_simplified": photos(240, 320, 1 / 128, 127 / 128),
    "fsanet_var": photos(64, 64, 1 / 128, 127.5 / 128), "super_resolution": grey(224, 224),
    "subpixel_ppp": grey(224, 224), "tinyvit_demo": photos(32, 32),
    "ocr_dbnet": written(320, 320, 6), "ocr_angle": written(32, 192, 1),
    "dnsmos": clips(144160), "magika_v2_1": lambda n, s: texts(n, s, None),
    "basic_pitch": lambda n, s: clips(43844, 22050)(n, s)[:, :, None],
    "nnsplit_en": lambda n, s: texts(n, s, 64), "tract_bidi_lstm": lambda n, s: texts(n, s, 64),
    "protocol_transformer": normal((5000,)), "autoencoder1d": normal((16, 16)),
    "acopf_118": normal((198,), True), "cgan32_upsample": normal((5,), True),
    "mlp_extdata": normal((374,), True), "mscn_128d": normal((11, 14), True),
    "rul_cnn": normal((1, 40, 20), True), "lstm_hive": normal((4, 7)),
}
STREAMS = {"silero_openvino": ("input", "state"), "dtln_1": ("input_2", "input_3"),
           "dtln_2": ("input_4", "input_5")}


def samples(model, path, count, seed):
    if model in STREAMS:
        return in_stream(path, count, seed, *STREAMS[model])
    if model == "stories260k_a":
        return stories(path, count, seed)
    if model == "voicevox_spec":
        x = normal((24, 46), True)(count, seed)
        return {"f0": x[:, :, :1] * 6, "phoneme": x[:, :, 1:],
                "speaker_id": np.ones((count, 1), np.int64)}
    if model not in SINGLE:
        return None
    name = judging.session_of(path, True).get_inputs()[0].name
    return {name: SINGLE[model](count, seed)}


def same_class(golden, got):
    same = np.mean([g[0].argmax(-1).reshape(-1) == c[0].argmax(-1).reshape(-1)
                    for g, c in zip(golden, got)])
    return f"{100 * same:.1f} % same class", 100 * (1 - same)


def pixels(golden, got):
    """F-score of the pixels that are text, above 0.3, against those of FP32."""
    hits = total = 0
    for g, c in zip(golden, got):
        a, b = g[0] > 0.3, c[0] > 0.3
        hits, total = hits + 2 * int((a & b).sum()), total + int(a.sum() + b.sum())
    score = hits / total if total else 1.0
    return f"F {100 * score:.2f} of pixels", 100 * (1 - score)


def probability(golden, got):
    error = np.mean([np.abs(g[0] - c[0]).mean() for g, c in zip(golden, got)])
    return f"mean error of probability {100 * error:.2f} points", 100 * error


def boxes_of(output, threshold=0.3, overlap=0.45):
    """YOLOX: (class, box) after suppression."""
    p, at = output.reshape(-1, 85).astype(np.float64), 0
    found = []
    for stride in (8, 16, 32):
        n = 416 // stride
        y, x = np.mgrid[:n, :n]
        q = p[at:at + n * n]
        at += n * n
        xy = (q[:, :2] + np.stack([x.ravel(), y.ravel()], 1)) * stride
        wh = np.exp(q[:, 2:4]) * stride / 2
        score = q[:, 4:5] * q[:, 5:]
        kind = score.argmax(1)
        for i in np.nonzero(score.max(1) > threshold)[0]:
            found.append((score[i].max(), kind[i], (*(xy[i] - wh[i]), *(xy[i] + wh[i]))))
    kept = []
    for s, k, b in sorted(found, reverse=True):
        if all(k != other or iou(b, c) < overlap for _, other, c in kept):
            kept.append((s, k, b))
    return kept


def iou(a, b):
    w = min(a[2], b[2]) - max(a[0], b[0])
    h = min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    area = lambda r: (r[2] - r[0]) * (r[3] - r[1])
    return w * h / (area(a) + area(b) - w * h)


def detections(golden, got):
    """F1 of detections, FP32's as the truth: same class and IoU of at least 0.5."""
    hits = total = 0
    for g, c in zip(golden, got):
        truth, found = boxes_of(g[0]), boxes_of(c[0])
        total += len(truth) + len(found)
        for _, k, b in found:
            match = next((t for t in truth if t[1] == k and iou(t[2], b) >= 0.5), None)
            if match:
                truth.remove(match)
                hits += 2
    score = hits / total if total else 1.0
    return f"F1 {100 * score:.2f} of {total} boxes", 100 * (1 - score)


METRICS = {"magika_v2_1": same_class, "nnsplit_en": same_class, "tract_bidi_lstm": same_class,
           "stories260k_a": same_class, "ocr_angle": same_class, "ocr_dbnet": pixels,
           "protocol_transformer": same_class, "tinyvit_demo": same_class,
           "silero_openvino": probability, "yolox_nano_coco": detections}
