#!/usr/bin/env python3
"""dlpack_peers.py LIBHEADRACE: tensors to and from NumPy and PyTorch by DLPack, the same bytes.

Through the shared library, as a stranger's program would. A peer that is not installed, or is too
old for DLPack, is skipped; without any the whole is (77).
"""
import ctypes
import sys
from ctypes import byref, c_char_p, c_int, c_int64, c_size_t, c_void_p

HR_F32, HR_ERR_INVALID = 0, -1
PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
api = ctypes.pythonapi
new_capsule, get_pointer, set_name = (
    api.PyCapsule_New, api.PyCapsule_GetPointer, api.PyCapsule_SetName)
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
get_pointer.restype, get_pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
set_name.argtypes = [ctypes.py_object, c_char_p]


class Stats(ctypes.Structure):
    _fields_ = [(n, c_size_t) for n in ("live", "blocks", "peak", "reserved")]


class Headrace:
    """The few calls that are needed, each checked."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        for name in ("hr_tensor_data", "hr_stream_current"):
            getattr(self.lib, name).restype = c_void_p
        for name in ("hr_last_error", "hr_last_reason"):
            getattr(self.lib, name).restype = c_char_p
        self.dev = c_void_p()
        self.call("hr_device_open", b"host", None, byref(self.dev))
        self.lib.hr_device_set_current(self.dev)

    def call(self, name, *args):
        if getattr(self.lib, name)(*args) < 0:
            raise RuntimeError(self.lib.hr_last_error().decode())

    def zeros(self, *shape):
        t = c_void_p()
        sizes = (c_int64 * len(shape))(*shape)
        self.call("hr_tensor_zeros", HR_F32, len(shape), sizes, byref(t))
        return t

    def synchronize(self):
        self.call("hr_device_synchronize", self.dev)

    def live(self):
        stats = Stats()
        self.lib.hr_mem_get_stats(self.dev, byref(stats))
        return stats.live

    def take_in(self, capsule, name):
        """The status and the tensor; the capsule counts as used where it went well."""
        t = c_void_p()
        call = "hr_tensor_from_dlpack" + ("_versioned" if name == VERSIONED else "")
        status = getattr(self.lib, call)(c_void_p(get_pointer(capsule, name)), byref(t))
        if status == 0:
            set_name(capsule, USED[name])
        return status, t

    def hand_out(self, t, name):
        m = c_void_p()
        self.call("hr_tensor_to_dlpack" + ("_versioned" if name == VERSIONED else ""), t, byref(m))
        return new_capsule(m, name, None)


USED = {name: b"used_" + name for name in (PLAIN, VERSIONED)}  # by address: must stay


class Producer:
    """What from_dlpack() functions want: an object with the two methods."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


class NumPy:
    def __init__(self, name):
        import numpy

        self.np, self.name = numpy, name
        numpy.from_dlpack  # since 1.23
        if name == VERSIONED:
            numpy.zeros(1).__dlpack__(max_version=(1, 0))  # since 2.1

    def make(self):
        return self.np.arange(6, dtype=self.np.float32).reshape(2, 3)

    def capsule(self, array):
        return array.__dlpack__(**({"max_version": (1, 0)} if self.name == VERSIONED else {}))

    def take(self, capsule):
        return self.np.from_dlpack(Producer(capsule))

    def address(self, array):
        return array.__array_interface__["data"][0]


class PyTorch:
    name = PLAIN

    def __init__(self):
        import torch
        import torch.utils.dlpack

        self.torch = torch

    def make(self):
        return self.torch.arange(6, dtype=self.torch.float32).reshape(2, 3)

    def capsule(self, array):
        return self.torch.utils.dlpack.to_dlpack(array)

    def take(self, capsule):
        return self.torch.utils.dlpack.from_dlpack(capsule)

    def address(self, array):
        return array.data_ptr()


def takes_in_the_same_bytes(hr, peer):
    array = peer.make()
    holders = sys.getrefcount(array)
    status, t = hr.take_in(peer.capsule(array), peer.name)
    assert status == 0, hr.lib.hr_last_error()
    assert hr.lib.hr_tensor_data(t) == peer.address(array)
    stream = c_void_p(hr.lib.hr_stream_current())
    hr.call("hr_fill", stream, c_void_p(hr.lib.hr_tensor_data(t)), c_int(0), c_size_t(8))
    hr.synchronize()
    assert array.tolist() == [[0, 0, 2], [3, 4, 5]]
    hr.lib.hr_tensor_release(t)
    hr.synchronize()
    assert sys.getrefcount(array) == holders


def outlives_the_peers_own_handle(hr, peer):
    array = peer.make()
    _, t = hr.take_in(peer.capsule(array), peer.name)
    del array
    values = (ctypes.c_float * 6)()
    hr.call("hr_tensor_read", t, values, c_size_t(24))
    assert list(values) == [0, 1, 2, 3, 4, 5]
    hr.lib.hr_tensor_release(t)
    hr.synchronize()


def hands_out_the_same_bytes(hr, peer):
    t = hr.zeros(2, 3)
    hr.synchronize()
    address = hr.lib.hr_tensor_data(t)
    array = peer.take(hr.hand_out(t, peer.name))
    hr.lib.hr_tensor_release(t)
    assert hr.live() == 24
    assert peer.address(array) == address and tuple(array.shape) == (2, 3)
    assert array.tolist() == [[0, 0, 0], [0, 0, 0]]
    del array
    assert hr.live() == 0


def refuses_what_is_transposed(hr, peer):
    capsule = peer.capsule(peer.make().T)
    status, _ = hr.take_in(capsule, peer.name)
    assert status == HR_ERR_INVALID and hr.lib.hr_last_reason() == b"strides"
    assert peer.take(capsule).tolist() == [[0, 3], [1, 4], [2, 5]]  # still theirs


TESTS = (takes_in_the_same_bytes, outlives_the_peers_own_handle, hands_out_the_same_bytes,
         refuses_what_is_transposed)
PEERS = {
    "NumPy": lambda: NumPy(PLAIN),
    "NumPy, versioned": lambda: NumPy(VERSIONED),
    "PyTorch": PyTorch,
}


def main():
    hr = Headrace(sys.argv[1])
    there = 0
    for peer_name, make in PEERS.items():
        try:
            peer = make()
        except (ImportError, AttributeError, TypeError) as e:
            print(f"skipped {peer_name}: {e}")
            continue
        there += 1
        for test in TESTS:
            test(hr, peer)
            print(f"ok {peer_name}: {test.__name__}")
    hr.lib.hr_device_close(hr.dev)
    return 0 if there else 77


sys.exit(main())
