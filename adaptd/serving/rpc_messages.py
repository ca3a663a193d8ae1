"""The messages of the Open Inference Protocol's gRPC service, as far as adaptd speaks it: built in memory from one table.

Field numbers and types are the public protocol's (`GRPCInferenceService`, package `inference`); on the wire nothing else counts,
so messages that it nests stand side by side here. Why there is no generated code: docs/decisions/0011-grpc-messages-in-memory.md.
"""

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"

MESSAGES: dict[str, dict[str, str]] = {
    "ServerLiveRequest": {},
    "ServerLiveResponse": {"live": "1 bool"},
    "ServerReadyRequest": {},
    "ServerReadyResponse": {"ready": "1 bool"},
    "ModelReadyRequest": {"name": "1 string", "version": "2 string"},
    "ModelReadyResponse": {"ready": "1 bool"},
    "ServerMetadataRequest": {},
    "ServerMetadataResponse": {"name": "1 string", "version": "2 string", "extensions": "3 string*"},
    "ModelMetadataRequest": {"name": "1 string", "version": "2 string"},
    "ModelMetadataResponse": {
        "name": "1 string",
        "versions": "2 string*",
        "platform": "3 string",
        "inputs": "4 TensorMetadata*",
        "outputs": "5 TensorMetadata*",
    },
    "TensorMetadata": {"name": "1 string", "datatype": "2 string", "shape": "3 int64*"},
    "InferParameter": {
        "bool_param": "1 bool",
        "int64_param": "2 int64",
        "string_param": "3 string",
        "double_param": "4 double",
        "uint64_param": "5 uint64",
    },
    "ParametersEntry": {"key": "1 string", "value": "2 InferParameter"},
    "InferTensorContents": {"uint_contents": "4 uint32*"},
    "InferInputTensor": {
        "name": "1 string",
        "datatype": "2 string",
        "shape": "3 int64*",
        "parameters": "4 ParametersEntry*",
        "contents": "5 InferTensorContents",
    },
    "InferRequestedOutputTensor": {"name": "1 string", "parameters": "2 ParametersEntry*"},
    "ModelInferRequest": {
        "model_name": "1 string",
        "model_version": "2 string",
        "id": "3 string",
        "parameters": "4 ParametersEntry*",
        "inputs": "5 InferInputTensor*",
        "outputs": "6 InferRequestedOutputTensor*",
        "raw_input_contents": "7 bytes*",
    },
    "InferOutputTensor": {"name": "1 string", "datatype": "2 string", "shape": "3 int64*", "parameters": "4 ParametersEntry*"},
    "ModelInferResponse": {
        "model_name": "1 string",
        "model_version": "2 string",
        "id": "3 string",
        "parameters": "4 ParametersEntry*",
        "outputs": "5 InferOutputTensor*",
        "raw_output_contents": "6 bytes*",
    },
}
"""Message → field → number and type; a star for several. A map is what it is on the wire, several entries."""


def build_messages() -> dict[str, Any]:
    """A class for each message, in a pool of their own: a client in the same process may have the public ones."""
    file = FileDescriptorProto(name="adaptd/open_inference.proto", package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, spec in fields.items():
            number, kind = spec.rstrip("*").split()
            label = FieldDescriptorProto.LABEL_REPEATED if spec.endswith("*") else FieldDescriptorProto.LABEL_OPTIONAL
            added = message.field.add(name=field, number=int(number), label=label)
            if kind in MESSAGES:
                added.type, added.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
            else:
                added.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}
