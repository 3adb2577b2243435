"""cuda_library_test.py LIBRARY: what `make cuda` built can be loaded where there is no driver, and says why it has no device.

Skipped (exit status 77) where it was not built, and where there is a GPU."""
import ctypes
import pathlib
import subprocess
import sys

SKIPPED = 77
Why = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
Open = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)


class Table(ctypes.Structure):
    """The beginning of EspalierDeviceTable in src/device/abi.h."""
    _fields_ = [("version", ctypes.c_uint32), ("kind", ctypes.c_char_p), ("count", Why), ("open", Open)]


def has_driver():
    try:
        return bool(ctypes.CDLL("libcuda.so.1"))
    except OSError:
        return False


def main():
    path = pathlib.Path(sys.argv[1])
    if not path.exists():
        print(f"skipped: there is no {path} (make cuda)")
        return SKIPPED
    listing = subprocess.run(["nm", "--dynamic", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    exported = [line.split()[-1] for line in listing.splitlines()]
    assert exported == ["espalier_device_table"], f"it exports {exported}"
    get_table = ctypes.CDLL(str(path)).espalier_device_table
    get_table.restype = ctypes.POINTER(Table)
    table = get_table().contents
    assert table.kind == b"cuda", table.kind
    why = ctypes.create_string_buffer(256)
    count = table.count(why, len(why))
    if count > 0:
        print(f"skipped: there are {count} devices")
        return SKIPPED
    assert why.value, "there is no device, and no reason"
    assert has_driver() or why.value == b"no NVIDIA driver is installed", why.value
    why_not = ctypes.create_string_buffer(256)
    assert not table.open(0, why_not, len(why_not)) and why_not.value, "a device that is not there was opened"
    assert has_driver() or why_not.value == why.value, why_not.value
    print(f"no device: {why.value.decode()}; not opened: {why_not.value.decode()}")
    return 0


sys.exit(main())
