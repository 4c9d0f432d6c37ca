"""Text from tokens: complete characters, stop texts that never leak, sandboxed templates."""

import json

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from cotenant.errors import BadInput
from cotenant.serving.models.text import FIRST_BYTE, ByteCodec, find_codec
from cotenant.serving.written_text import Writer


class Utf8Codec(ByteCodec):
    """Tokens are parts of characters, as in a model's own tokenizer."""

    def decode(self, ids):
        return bytes(one - FIRST_BYTE for one in ids).decode(errors="replace")


def written(text, size, *stops):
    codec, out = Utf8Codec(), []
    writer = Writer(codec, stops)
    ids = codec.encode(text)
    for at in range(0, len(ids), size):
        out.append(writer.put(ids[at : at + size]))
        if writer.stopped:
            break
    return [*out, writer.end()], writer


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pieces_add_up_to_the_text_without_broken_characters(size):
    pieces, writer = written("naïve 日本 🙂!", size)
    assert "".join(pieces) == "naïve 日本 🙂!"
    assert not any("\ufffd" in piece for piece in pieces)
    assert writer.why(writer.count) == "length"


def test_bytes_that_never_become_a_character_do_not_hold_the_stream_up():
    writer = Writer(Utf8Codec())
    pieces = [writer.put([0x80 + FIRST_BYTE]) for _ in range(6)]
    assert pieces == ["", "", "", "\ufffd", "\ufffd", "\ufffd"]
    assert writer.end() == "\ufffd" * 3


def test_without_a_tokenizer_every_token_is_streamed_as_a_character():
    writer = Writer(ByteCodec())
    pieces = [writer.put([token]) for token in range(1000)]
    assert {len(piece) for piece in pieces} == {1}
    assert ByteCodec().decode(ByteCodec().encode("plain text\n")) == "plain text\n"


@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_a_stop_text_never_leaks(size):
    pieces, writer = written("one END two", size, "END")
    assert "".join(pieces) == "one "
    assert writer.why(100) == "stop"


def test_a_false_start_of_a_stop_text_is_emitted():
    assert "".join(written("one EN two", 1, "END")[0]) == "one EN two"


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


def test_a_template_is_run_in_a_sandbox(folder):
    evil = "{{ messages.__class__.__base__.__subclasses__() }}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": evil}))
    with pytest.raises(BadInput, match="refuses this conversation"):
        find_codec(str(folder)).chat([{"role": "user", "content": "hi"}])


def test_without_a_template_a_chat_is_refused_and_without_a_tokenizer_there_is_no_codec(folder, tmp_path_factory):
    with pytest.raises(BadInput, match="no chat template"):
        find_codec(str(folder)).chat([{"role": "user", "content": "hi"}])
    assert find_codec(str(tmp_path_factory.mktemp("empty"))) is None
