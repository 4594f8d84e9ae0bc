/* Moves the timestamps of a trace's packets to another clock, in place. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Reads a varint; returns the position after it, or NULL if it is cut off or too long. */
static const uint8_t *varint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
        *value |= (uint64_t)(*at & 127) << shift;
        if (*at++ < 128) return at;
    }
    return NULL;
}

PyDoc_STRVAR(shift_doc,
"shift(buffer, at, offset, rate) -> bytes in complete packets\n"
"\n"
"Add ``offset + rate * (time - at)`` to the timestamp of every packet that begins with one of nine bytes.");

static PyObject *shift(PyObject *self, PyObject *args) {
    Py_buffer buffer;
    long long since, offset;
    double rate;
    if (!PyArg_ParseTuple(args, "w*LLd", &buffer, &since, &offset, &rate)) return NULL;
    const uint8_t *first = buffer.buf, *end = first + buffer.len, *at = first;
    while (at < end && *at == 0x0a) {
        uint64_t size, time;
        const uint8_t *packet = varint(at + 1, end, &size);
        if (!packet || size > (uint64_t)(end - packet)) break;
        at = packet + size;
        if (!size || *packet != 0x40) continue;
        const uint8_t *after = varint(packet + 1, at, &time);
        if (!after || after - packet != 10) continue;
        int64_t moved = (int64_t)time + offset + (int64_t)(rate * (double)((int64_t)time - since));
        uint64_t rest = moved < (1LL << 56) ? 1ULL << 56 : (uint64_t)moved; /* Nine bytes again. */
        uint8_t *out = (uint8_t *)packet + 1;
        for (int i = 0; i < 8; i++, rest >>= 7) out[i] = (rest & 127) | 128;
        out[8] = rest & 127;
    }
    Py_ssize_t done = at - first;
    PyBuffer_Release(&buffer);
    return PyLong_FromSsize_t(done);
}

static PyMethodDef functions[] = {{"shift", shift, METH_VARARGS, shift_doc}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_shift", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__shift(void) { return PyModule_Create(&definition); }
