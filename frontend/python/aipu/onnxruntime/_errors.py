"""The exceptions of onnxruntime; each also is what the rest of this package raises in its place."""


class Fail(RuntimeError):
    """Something went wrong that has no class of its own."""


class InvalidArgument(ValueError):
    """A name, dtype, shape or value that does not fit."""


class NoSuchFile(FileNotFoundError):
    """There is no such model."""


class InvalidProtobuf(ValueError):
    """The bytes are no ONNX model."""


class InvalidGraph(ValueError):
    """The model is not what ONNX allows."""


class NotImplemented(RuntimeError):
    """An operator, or a form of one, that is not supported; its text names the nodes."""


class RuntimeException(RuntimeError):
    """The run failed."""


class EPFail(RuntimeError):
    """The provider failed."""
