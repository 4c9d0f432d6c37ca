"""Text from tokens: complete characters, stop texts that never leak, sandboxed templates."""

import json

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from cotenant.errors import BadInput
from cotenant.serving.codec import FIRST_BYTE, WINDOW, ByteCodec, TextWriter, find_codec
from cotenant.serving.workers.work import Prompt


class Utf8Codec(ByteCodec):
    """Tokens are parts of characters, as in a model's own tokenizer."""

    def decode(self, ids, *, special=False):
        return bytes(one - FIRST_BYTE for one in ids).decode(errors="replace")


def written(text, *stops, **options):
    codec, out = Utf8Codec(), []
    ids = codec.encode(text)
    writer = TextWriter(codec, Prompt((FIRST_BYTE,), len(ids), **options), stops)
    for token in ids:
        out.append(writer.put(token))
        if writer.reason:
            break
    return out, writer


def test_pieces_add_up_to_the_text_without_broken_characters():
    pieces, writer = written("naïve 日本 🙂!" * 20)
    assert "".join(pieces) == "naïve 日本 🙂!" * 20
    assert not any("\ufffd" in piece for piece in pieces)
    assert writer.reason == "length"


def test_a_long_answer_is_not_decoded_from_its_beginning_for_every_token():
    decoded = []

    class Counting(Utf8Codec):
        def decode(self, ids, *, special=False):
            decoded.append(len(ids))
            return super().decode(ids)

    writer = TextWriter(Counting(), Prompt((FIRST_BYTE,), 1000))
    text = "".join(writer.put(token) for token in Counting().encode("é" * 500))
    assert text == "é" * 500
    assert max(decoded) <= 3 * WINDOW


def test_bytes_that_never_become_a_character_do_not_hold_the_stream_up():
    writer = TextWriter(Utf8Codec(), Prompt((FIRST_BYTE,), 6))
    pieces = [writer.put(0x80 + FIRST_BYTE) for _ in range(6)]
    assert pieces == ["", "", "", "\ufffd", "\ufffd", "\ufffd" * 4]


def test_without_a_tokenizer_every_token_is_streamed_as_a_character():
    writer = TextWriter(ByteCodec(), Prompt((FIRST_BYTE,), 1000))
    pieces = [writer.put(token) for token in range(1000)]
    assert {len(piece) for piece in pieces} == {1}
    assert ByteCodec().decode(ByteCodec().encode("plain text\n")) == "plain text\n"


def test_an_answer_continues_its_prompt(tmp_path):
    words = Tokenizer(WordLevel({"a": 0, "b": 1, "<unk>": 2}, unk_token="<unk>"))
    words.save(str(tmp_path / "tokenizer.json"))
    codec = find_codec(str(tmp_path))
    writer = TextWriter(codec, Prompt((0, 1), 2))
    assert codec.decode((0, 1)) + writer.put(0) + writer.put(1) == codec.decode((0, 1, 0, 1)) == "a b a b"


def test_a_character_that_the_prompt_began_is_not_cut_from_the_answer():
    codec = Utf8Codec()
    writer = TextWriter(codec, Prompt(codec.encode("日")[:2], 3))
    assert "".join(writer.put(token) for token in codec.encode("one")) == "one"


def test_a_stop_text_never_leaks():
    pieces, writer = written("one END two", "END")
    assert "".join(pieces) == "one "
    assert (writer.stopped, writer.reason, writer.stopped_by) == (True, "stop", "END")


def test_a_false_start_of_a_stop_text_is_emitted():
    assert "".join(written("one EN two", "END")[0]) == "one EN two"
    assert "".join(written("one EN", "END")[0]) == "one EN"


def test_neither_stop_texts_nor_stop_tokens_end_an_answer_before_its_least_length():
    comma = ord(",") + FIRST_BYTE
    assert "".join(written("a,b,c,d", ",", min_tokens=2)[0]) == "a,b"
    assert "".join(written("a,b,c,d", stop=(comma,), min_tokens=2)[0]) == "a,b"
    assert written("a,b,c,d", stop=(comma,))[1].stopped_by == comma


@pytest.fixture
def folder(tmp_path):
    tokenizer = Tokenizer(WordLevel({"<eos>": 0, "hi": 1, "user": 2, "there": 3}, unk_token="<eos>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 0}))
    return tmp_path


def test_a_folders_own_tokenizer_and_template_are_used(folder):
    template = "{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    codec = find_codec(str(folder))
    assert codec.encode("hi there") == (1, 3)
    assert codec.stops == (0,)
    assert codec.chat([{"role": "user", "content": "hi"}]) == (2, 1)


def test_a_template_may_have_a_file_of_its_own(folder):
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    assert find_codec(str(folder)).chat([{"role": "user", "content": "there"}]) == (3,)


def test_a_template_is_run_in_a_sandbox(folder):
    evil = "{{ messages.__class__.__base__.__subclasses__() }}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": evil}))
    with pytest.raises(BadInput, match="refuses this conversation"):
        find_codec(str(folder)).chat([{"role": "user", "content": "hi"}])


def test_without_a_template_a_chat_is_refused_and_without_a_tokenizer_there_is_no_codec(folder, tmp_path_factory):
    with pytest.raises(BadInput, match="no chat template"):
        find_codec(str(folder)).chat([{"role": "user", "content": "hi"}])
    assert find_codec(str(tmp_path_factory.mktemp("empty"))) is None
