"""ImageDecoder: images of all formats against Pillow, and what is no image."""

import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model
from other_python import python_with, run_python

BUILD = Path(os.environ["AIPU_BUILD_DIR"])

# Encodes pictures in a folder, each as one file, with what Pillow makes of it as RGB and grey beside it.
ENCODE = """
import io, pathlib, sys
import numpy as np
from PIL import Image

folder = pathlib.Path(sys.argv[1])
random = np.random.default_rng(3)
smooth = np.add.outer(np.arange(37) * 3, np.arange(53) * 2)[..., None] + np.array([0, 50, 100])
smooth = np.clip(smooth + random.integers(0, 12, (37, 53, 3)), 0, 255).astype(np.uint8)
rgb = Image.fromarray(smooth)
alpha = rgb.copy()
alpha.putalpha(Image.fromarray(random.integers(0, 255, (37, 53), np.uint8)))
pictures = {
    "rgb.png": (rgb, {}), "grey.png": (rgb.convert("L"), {}), "palette.png": (rgb.quantize(37), {}),
    "alpha.png": (alpha, {}), "grey_alpha.png": (alpha.convert("LA"), {}), "bits.png": (rgb.convert("1"), {}),
    "rgb.jpg": (rgb, {}), "full.jpg": (rgb, {"subsampling": 0}), "grey.jpg": (rgb.convert("L"), {}),
    "progressive.jpg": (rgb, {"progressive": True}), "inks.jpg": (rgb.convert("CMYK"), {}),
    "rgb.jp2": (rgb, {}), "grey.jp2": (rgb.convert("L"), {}), "stream.j2k": (rgb, {}),
    "rgb.tif": (rgb, {}), "deflated.tif": (rgb, {"compression": "tiff_adobe_deflate"}),
    "grey.tif": (rgb.convert("L"), {}), "palette.tif": (rgb.quantize(37), {}),
    "bits.tif": (rgb.convert("1"), {"compression": "group4"}),
    "lossy.webp": (rgb, {}), "lossless.webp": (rgb, {"lossless": True}),
    "alpha.webp": (alpha, {"lossless": True, "exact": True}),
    "rgb.bmp": (rgb, {}), "grey.bmp": (rgb.convert("L"), {}), "palette.bmp": (rgb.quantize(200), {}),
    "bits.bmp": (rgb.convert("1"), {}), "alpha.bmp": (alpha, {}),
    "rgb.ppm": (rgb, {}), "grey.pgm": (rgb.convert("L"), {}), "bits.pbm": (rgb.convert("1"), {}),
}
for name, (picture, options) in pictures.items():
    picture.save(folder / name, **options)
    found = Image.open(folder / name).convert("RGB")
    np.savez(folder / (name + ".npz"), rgb=np.array(found), grey=np.array(found.convert("L"))[..., None])
"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Encoded images by name, and the folder of what Pillow makes of them."""
    python = python_with("numpy, PIL.Image")
    folder = tmp_path_factory.mktemp("pictures")
    script = folder / "encode.py"
    script.write_text(ENCODE)
    run_python(python, script, folder)
    script.unlink()
    names = sorted(path.name for path in folder.iterdir() if path.suffix != ".npz")
    return folder, {name: np.fromfile(folder / name, np.uint8) for name in names}


def decoder(folder, pixel_format, **options):
    attributes = {"pixel_format": pixel_format} if pixel_format else {}
    nodes = [node("ImageDecoder", ["data"], ["y"], **attributes)]
    channels = 1 if pixel_format == "Grayscale" else 3
    inputs, outputs = [("data", "uint8", ("N",))], [("y", "uint8", ("H", "W", channels))]
    write_model(folder / "m.onnx", nodes, inputs, outputs, opset=20)
    return aipu.build(folder / "m.onnx", folder / "m.aipu.bin", **options)["output"]


def loaded(folder, pixel_format=""):
    model = aipu.load(decoder(folder, pixel_format))
    return lambda data: model.run({"data": np.frombuffer(bytes(data), np.uint8)})["y"]


@pytest.mark.parametrize("pixel_format", ["", "BGR", "Grayscale"])
def test_as_pillow(tmp_path, pictures, pixel_format):
    decode = loaded(tmp_path, pixel_format)
    folder, encoded = pictures
    assert len(encoded) == 30
    for name, data in encoded.items():
        with np.load(folder / f"{name}.npz") as expected:
            y = {"": expected["rgb"], "BGR": expected["rgb"][..., ::-1], "Grayscale": expected["grey"]}[pixel_format]
        np.testing.assert_array_equal(decode(data), y, err_msg=name)


def bitmap(bits, rows, palette=(), compression=0, top_down=False, width=3, height=2, masks=b""):
    """A BMP file of rows of bytes, of 3x2 pixels."""
    colours = b"".join(bytes([b, g, r, 0]) for r, g, b in palette)
    header = struct.pack("<IiiHHIIiiII", 40, width, -height if top_down else height, 1, bits, compression, len(rows),
                         0, 0, len(palette), 0)  # fmt: skip
    offset = 14 + len(header) + len(masks) + len(colours)
    return b"BM" + struct.pack("<IHHI", offset + len(rows), 0, 0, offset) + header + masks + colours + rows


FEW = [(0, 0, 0), (255, 0, 0), (0, 255, 0), (1, 2, 3)]


def shown(rows):
    return np.array([[FEW[k] for k in row] for row in rows], np.uint8)


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"P3\n# c\n2 1 # d\n7\n0 7 1  6 3 4", [[[0, 255, 36], [219, 109, 146]]]),
        (b"P2 2 1 255 7 255", [[[7] * 3, [255] * 3]]),
        (b"P1 4 1\n01 10", [[[255] * 3, [0] * 3, [0] * 3, [255] * 3]]),
        (b"P5 2 1 1000 \x03\xe8\x01\xf4", [[[255] * 3, [128] * 3]]),
        (bitmap(4, b"\x12\x30\0\0\x01\x10\0\0", FEW), shown([[0, 1, 1], [1, 2, 3]])),
        (bitmap(4, b"\x12\x30\0\0\x01\x10\0\0", FEW, top_down=True), shown([[1, 2, 3], [0, 1, 1]])),
        (bitmap(8, b"\x03\x02\0\0\0\3\1\2\3\0\0\1", FEW, 1), shown([[1, 2, 3], [2, 2, 2]])),
        (bitmap(8, b"\1\3\0\2\1\1\1\1\0\1", FEW, 1), shown([[0, 0, 1], [3, 0, 0]])),
        (bitmap(4, b"\x03\x12\0\0\0\3\x12\x30\0\1", FEW, 2), shown([[1, 2, 3], [1, 2, 1]])),
        (bitmap(16, struct.pack("<4H", 0x7C00, 0x3E0, 0x1F, 0), width=3, height=1),
         [[[255, 0, 0], [0, 255, 0], [0, 0, 255]]]),
        (bitmap(32, struct.pack("<I", 0x40FF0010), compression=3, width=1, height=1,
                masks=struct.pack("<III", 0xFF, 0xFF0000, 0xFF000000)), [[[16, 255, 64]]]),
    ],
)  # fmt: skip
def test_formats_of_our_own(tmp_path, data, expected):
    np.testing.assert_array_equal(loaded(tmp_path)(data), np.asarray(expected, np.uint8))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, rows):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "the 0 bytes are no image of a known format"),
        (b"hello", "the 5 bytes are no image of a known format (PNG, JPEG, WebP, TIFF, JPEG 2000, BMP, PNM)"),
        (png(2, 2, b"\0" * 6), "the PNG image: can't be read"),
        (png(1 << 20, 1 << 20, b""), "has 1048576x1048576 pixels, more than the 268435456 that are decoded"),
        (b"P6 4294967295 4294967295 255 ", "the PNM image: has 4294967295x4294967295 pixels"),
        (b"P6 16384 16384 255 ", "the PNM image: is cut off"),
        (b"P6 0 5 255 ", "the PNM image: has no pixels"),
        (b"P5 1 1 9 \x0a", "a sample that can't be read"),
        (b"BM", "the BMP image: is cut off"),
        (bitmap(8, b"\0" * 8, width=16384, height=16384), "the BMP image: is cut off"),
        (bitmap(4, b"\x40\0\0\0" * 2, FEW), "a pixel whose colour the palette does not have"),
        (bitmap(8, b"\x04\1\0\1", FEW, 1), "a run beyond its edge"),
        (bitmap(7, b"", FEW), "has 7 bits a pixel"),
        (b"\xff\xd8\xff\xe0 and no more", "the JPEG image: can't be read"),
        (b"RIFF\4\0\0\0WEBP", "the WebP image: has no header that can be read"),
        (b"II*\0\xff\xff\xff\x7f", "the TIFF image: can't be read"),
        (b"\xff\x4f\xff\x51\0", "the JPEG 2000 image: can't be read"),
    ],
)
def test_what_is_no_image(tmp_path, data, message):
    with pytest.raises((RuntimeError, ValueError)) as error:
        loaded(tmp_path)(data)
    assert message in str(error.value) and "node 'y_node' (ImageDecoder)" in str(error.value)
    assert "\n" not in str(error.value)


def test_damaged_images(tmp_path, pictures):
    """Those that are cut off are errors; other damage may go unseen, but harms nothing."""
    decode = loaded(tmp_path)
    random = np.random.default_rng(11)
    for name, data in pictures[1].items():
        for part in (0.3, 0.6):
            with pytest.raises((RuntimeError, ValueError), match="node 'y_node'"):
                print(name, decode(data[: int(len(data) * part)]).shape)
        for _ in range(40):
            other = data.copy()
            places = random.integers(0, min(len(data), random.choice([64, len(data)])), 3)
            other[places] = random.integers(0, 256, 3)
            try:
                decode(other)
            except (RuntimeError, ValueError) as error:
                assert "node 'y_node'" in str(error), name


def test_pixel_formats_that_are_none(tmp_path):
    with pytest.raises((RuntimeError, ValueError), match="pixel_format 'HSV' is none of RGB, BGR and Grayscale"):
        decoder(tmp_path, "HSV")


def test_without_the_library_of_images(tmp_path):
    """It is looked for beside the runtime, which is in the program here."""
    path = decoder(tmp_path, "")
    (tmp_path / "lib").mkdir()
    shutil.copy(BUILD / "bin/aipurun", tmp_path / "lib/aipurun")
    shutil.copy(BUILD / "lib/libaipu_backend_host.so", tmp_path / "lib")
    np.save(tmp_path / "data.npy", np.frombuffer(b"P2 2 1 255 7 255", np.uint8))
    command = [tmp_path / "lib/aipurun", path, "--input", f"data={tmp_path}/data.npy"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert "encoded images need libaipu_image.so, which was not installed" in refused.stderr
    shutil.copy(BUILD / "lib/libaipu_image.so", tmp_path / "lib")
    assert subprocess.run(command, capture_output=True).returncode == 0
    with pytest.raises(RuntimeError, match="decodes images, which a sandbox does not"):
        aipu.load(path, sandbox=True)
