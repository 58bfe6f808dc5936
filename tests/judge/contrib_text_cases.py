"""Texts cut into words by ONNX Runtime's Tokenizer, and letters in lower and upper case; see contrib_operators.py."""

from contrib_cases import Case, np

from onnx import TensorProto

STRING = TensorProto.STRING
TEXTS = ["one, two;three", "", "  two  spaces ", "a", "naïve café, ÉTÉ", "日本語 text", "x1_y2 - 3.5e7",
         "don't stop;;now", "Straße ΑΒΓ привет", "😀 smile"]


def tokenizer_cases():
    out = []
    rules = [{"separators": [" "]}, {"separators": [",", ";", " "]}, {"separators": ["[ ,;]+"]}, {"separators": [""]},
             {"separators": ["a|ab", "t"]}, {"separators": ["x*"]}, {"separators": ["\\b"]}, {"tokenexp": "[a-zA-Z0-9_]+"}, {"tokenexp": "\\w+"},
             {"tokenexp": "a|ab"}, {"tokenexp": "[a-z]*"}, {"tokenexp": "."}, {"tokenexp": "[^\\s]{2}"}]
    for rule in rules:
        for mark in (0, 1):
            for shortest in (1, 2, 4):
                if rule.get("separators") == [""] and shortest > 1:
                    continue
                attrs = dict(rule, mark=mark, mincharnum=shortest, pad_value="#")
                label = "%s mark %d of %d" % (rule, mark, shortest)
                out.append(Case("Tokenizer", label, [("x", np.array(TEXTS, object))], [STRING], attrs))
    attrs = {"tokenexp": "[a-z]+", "mark": 1, "mincharnum": 1, "pad_value": ""}
    for label, texts in (("rank 2", [["one two", "3"], ["", "four"]]), ("no token", ["1", "2"]), ("rank 2, no token", [["1"]])):
        out.append(Case("Tokenizer", label, [("x", np.array(texts, object))], [STRING], attrs))
    return out


def letter_cases():
    out = []
    for action in ("LOWER", "UPPER", "NONE"):
        for stop in ({}, {"stopwords": ["ONE", "été", "a"]}):
            for sensitive in (0, 1):
                attrs = dict(stop, case_change_action=action, is_case_sensitive=sensitive, locale="C.UTF-8")
                words = np.array(["one", "ÉTÉ", "naïve", "ΑΒΓ", "привет", "A", "日本", "ǅ"], object)
                out.append(Case("StringNormalizer", "%s %s %d" % (action, stop, sensitive), [("x", words)], [STRING], attrs,
                                domain=""))
    return out


def cases():
    return tokenizer_cases() + letter_cases()
