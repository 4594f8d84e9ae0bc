/* The recorder in C: callables inserted into scripts, which record events of 32 bytes.

   All code runs while its thread holds the interpreter lock, so writers need no other lock.
   Readers in this process copy events out with drain(); readers in other processes see only the header.
   fallback.py has the same interface in Python; log.py describes the layout of events and header. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

#ifdef Py_GIL_DISABLED
#error "the recorder relies on the interpreter lock: free-threaded builds use fallback.py"
#endif

#define FORMAT 2
#define SAMPLE 251       /* Every 251st call is timed; a prime, so that all calls of a step get sampled. */
#define LONG 100000      /* A call that took longer than this, in ns, was preempted. */
#define SHOWN 16         /* Threads whose open kind the header shows. */
#define WORDS 8          /* Control words. */
#define TYPES 16         /* Exact types of tensors that can be read. */
#define DTYPES 16
#define RECORDS 6        /* Events that one site may record each time. */
#define DEEP 4           /* Nesting levels of a batch that are searched for its first tensor, */
#define WIDE 16          /* and members of each container. */
#define SAME 4           /* A longer list of tensors of one shape may be a list of samples. */
#define OPEN_PAIRS 1024  /* Open pairs kept per thread. */
#define PIECE 30         /* Bytes of a note's text in one slot. */
#define NAMED 16384      /* Slots of the hash table of named modules, */
#define NEAR 8           /* and slots probed for each. */
#define TASKS 1000       /* Tasks of one site with separate sites. */
#define GROUPS 256       /* Groups of one kind of collective with separate sites. */
#define TENSORS 4096     /* Tensors of a collective whose bytes are read. */
#define ON_CPU 1         /* DLPack's number for the CPU. */

/* Tagged enums are copies of those in sites.py; a test compares them. */
enum ring { STRUCTURE, VALUES };
enum { REACHED = 1, FULL = 2 };                                               /* Reasons to call back into Python. */
enum read { NOTHING, NUMBER, LENGTH, MODULE_CALL, RESULT, IDENTITY, COLLECTIVE, MESSAGE };  /* What a site reads. */
enum { SHAPE, TORCH, HELD };
enum { UNTRACED = 1, NO_MODES = 2 };                                          /* State of torch, cached for one event. */
enum role { PLAIN, BEGINS, ENDS };                                            /* A site's role in a pair. */
#define ENTERED 0x80000000u /* Added to a site's number to tell open loops from open pairs. */
enum flag { AMBIGUOUS = 1, TRAINING = 1, GRAD = 2, MODEL = 4, ENDED = 8, FAILED = 16, IN_OPTIMIZER = 32, LATER = 64, CAME = 128, MARKED = 128, ZEROED = 1 };
enum kind { FORWARD = 3, BACKWARD = 4, OPTIMIZER = 5, ZERO_GRAD = 8, STEP = 11, LOOP = 14, COMPILE = 16, COMMUNICATION = 17, LOSS = 18, ENTERS = 20, THREAD = 22, WAITS = 31 };

typedef struct { uint64_t start; double value; uint32_t object; uint16_t site, thread; uint64_t rest; } event_t;
typedef struct { uint32_t native; uint16_t thread; uint8_t kind, flags; uint64_t since, spare[2]; } shown_t;
typedef struct {
    char magic[8];
    uint32_t format, pid;
    uint64_t started, monotonic, epoch, head[2], lost[2], own;
    uint64_t control[WORDS];
    uint8_t spare[256 - 144];
    shown_t threads[SHOWN];
    char directory[4096 - 256 - SHOWN * sizeof(shown_t)];
} header_t;
_Static_assert(sizeof(event_t) == 32, "an event has 32 bytes");
_Static_assert(sizeof(header_t) == 4096, "the header is one page");

typedef struct ending ending_t;
typedef struct { PyTypeObject *type; long how; } tensor_type;  /* How it is read: SHAPE, TORCH, HELD. */
typedef struct { PyObject *dtype; char code; } dtype_code;
/* DLPack's description of a tensor, and the function that fills it in, from a library's table (DLPack 1.3, dlpack.h). */
typedef struct {
    void *data;
    int32_t device, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t offset;
} described_t;
typedef int (*describe_t)(void *tensor, described_t *out);
typedef struct { uint32_t major, minor; void *previous, *owning[3]; describe_t describe; } exchange_t;
/* torch's getters, looked up once: lookups are slow after a step, when the caches are cold. */
typedef struct {
    getter ndim, shape, is_cpu, dtype;
    void *closures[4];
    PyCFunction data_ptr;
    lenfunc length;
    describe_t describe;
} tensor_access;

static struct {
    event_t *events[2];
    uint64_t mask[2];
    header_t *header;                   /* Anonymous memory until it is published. */
    int muted, submodules, due;
    uint32_t generation, untimed, pairs;
    uint16_t reducing;                  /* Site of the waits at the end of backward. */
    ending_t *ending;                   /* The latest open call of backward, and how many are open. */
    int n_endings;
    uint64_t armed_kinds, armed_left, marked_kinds;
    PyObject *armed, *marker, *queue, *at_end, *group, *numbers, *hold, *grad_enabled, *running_loop, *current_task, *name, *size_of, *inherited, *full;
    PyObject *tracing, *modes, *without_modes;  /* torch's: tracing state, number of modes, context without modes. */
    PyTypeObject *unread[2];            /* The first types of losses and of batches that could not be read. */
    uint64_t drained;
    uint32_t named[NAMED];
    tensor_type types[TYPES];
    tensor_access torch;
    dtype_code dtypes[DTYPES];
    int n_types, n_dtypes;
    PyTypeObject *site_type, *span_type, *loop_type;
    PyObject *s_ndim, *s_shape, *s_dtype, *s_is_cpu, *s_data_ptr, *s_data, *s_training, *s_parameters, *s_modules;
    PyObject *s_stated[3], *s_task, *s_enter, *s_exit, *s_next, *s_wrap, *s_name, *s_step, *s_id, *s_begin, *s_end, *s_qualname, *s_group_name;
} G;

static header_t no_header;              /* Dummy, written to while the recorder is closed. */

/* Threads: each has a number, which is reused after the thread has ended. */

typedef struct {
    uint64_t start, id;
    double value;
    uintptr_t task;                     /* Of asyncio. */
    void *handled;                      /* The exception being handled then; only compared. */
    uint32_t pair, object;
    uint8_t depth, optimizers, structural, kind, marked;
} pair_t;
typedef struct {
    uint32_t generation;
    uint16_t id;
    int8_t shown;
    uint8_t depth, models, optimizers, busy, zeroed, ambiguous, readable, hooked;
    pair_t *open;
    ending_t *ending;                   /* The innermost open call of backward. */
    int n_open, room;
} thread_t;
static __thread thread_t T;
static pthread_key_t at_exit;
static pthread_mutex_t numbering = PTHREAD_MUTEX_INITIALIZER;
static uint64_t taken[1024];            /* A bit for each of 65,536 numbers. */
static uint8_t shown[SHOWN];

static inline uint64_t now(void) {
#if defined(__APPLE__)
    return clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}

static uint32_t native_id(void) {
#if defined(__linux__)
    return (uint32_t)syscall(SYS_gettid);
#elif defined(__APPLE__)
    uint64_t id = 0;
    pthread_threadid_np(NULL, &id);
    return (uint32_t)id;
#else
    return 0;
#endif
}

/* Runs when a thread ends, without the interpreter lock: must not touch Python objects. */
static void thread_ends(void *unused) {
    (void)unused;
    pthread_mutex_lock(&numbering);
    if (T.generation == G.generation && T.id) {
        taken[T.id >> 6] &= ~(1ull << (T.id & 63));
        if (T.shown >= 0) {
            shown[T.shown] = 0;
            G.header->threads[T.shown].thread = 0;
        }
    }
    pthread_mutex_unlock(&numbering);
    free(T.open);
    memset(&T, 0, sizeof T);
}

static inline void put(int ring, int kind, uint16_t site, uint64_t start, uint64_t duration, double value,
                       uint32_t object, uint8_t flags);

static void number_thread(void) {
    pair_t *open = T.open;
    int room = T.room, at = 1;
    memset(&T, 0, sizeof T);
    T.open = open;
    T.room = room;
    T.generation = G.generation;
    T.shown = -1;
    pthread_mutex_lock(&numbering);
    while (at < 0xFFFE && taken[at >> 6] >> (at & 63) & 1) at++;
    taken[at >> 6] |= 1ull << (at & 63);
    T.id = (uint16_t)at;
    for (int i = 0; i < SHOWN && T.shown < 0; i++)
        if (!shown[i]) {
            shown[i] = 1;
            T.shown = (int8_t)i;
            G.header->threads[i] = (shown_t){.native = native_id(), .thread = T.id};
        }
    pthread_mutex_unlock(&numbering);
    pthread_setspecific(at_exit, &T);
    put(STRUCTURE, THREAD, 0, now(), 0, native_id(), 0, 0);
}

static inline void here(void) {
    if (T.generation != G.generation) number_thread();
}

static inline void put(int ring, int kind, uint16_t site, uint64_t start, uint64_t duration, double value,
                       uint32_t object, uint8_t flags) {
    if (!G.events[ring]) return;
    uint64_t head = G.header->head[ring];
    if (T.optimizers) flags |= IN_OPTIMIZER;
    if (duration >> 48) duration = (1ull << 48) - 1;
    G.events[ring][head & G.mask[ring]] = (event_t){
        start, value, object, site, T.id, duration | (uint64_t)T.depth << 48 | (uint64_t)flags << 56};
    __atomic_store_n(&G.header->head[ring], head + 1, __ATOMIC_RELEASE);
    if (ring != STRUCTURE) return;
    if (G.armed_kinds >> kind & 1 && G.armed_left && !--G.armed_left) G.due |= REACHED;
    if (head - G.drained > G.mask[STRUCTURE] / 4 * 3) G.due |= FULL;
}

/* One recorded call in 251 is timed; returns its start, 0 for the others. */
static inline uint64_t timed(void) {
    if (++G.untimed < SAMPLE || T.busy) return 0;
    G.untimed = 0;
    return now();
}
/* A sample counts for all calls; one that was preempted, for itself only. */
static inline void spent(uint64_t took) { G.header->own += took < LONG ? took * SAMPLE : took; }
static inline void cost(uint64_t begun) {
    if (begun) spent(now() - begun);
}

static inline uint32_t identity(PyObject *o) { return (uint32_t)((uintptr_t)o >> 4); }

/* Calls back into Python before a call returns `result`: when an alarm's number of events is reached, and to drain
   the ring before it overruns. */
static PyObject *reached(PyObject *result) {
    if (!result) return NULL;
    int due = G.due;
    G.due = 0;
    PyObject *callbacks[] = {due & FULL ? G.full : NULL, due & REACHED ? G.armed : NULL};
    if (due & REACHED) G.armed_kinds = 0;
    for (int i = 0; i < 2; i++) {
        if (!callbacks[i]) continue;
        PyObject *callback = Py_NewRef(callbacks[i]), *done = PyObject_CallNoArgs(callback);
        Py_DECREF(callback);
        Py_XDECREF(done);
        if (!done) {
            Py_DECREF(result);
            return NULL;
        }
    }
    return result;
}
#define RETURN(result) return G.due ? reached(result) : (result)

/* Reading values runs no code of the script, except attributes that hold a size. Each function returns 0, with NaN
   for unknown values; or -1 with an exception that must propagate, such as KeyboardInterrupt. */

static int pass(void) {
    if (!PyErr_Occurred()) return 0;
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
    PyErr_Clear();
    return 0;
}

/* Marks a boundary on the device, by calling the marker in the script's thread. Returns 1 if it recorded a mark, -1
   with an exception that must propagate. A pending exception is preserved. The time counts as voir's overhead, and
   is excluded from the interval that began at `*begun`. */
static int mark_of(uint16_t thread, int kind, int edge, uint64_t start, uint64_t at, uint8_t depth, uint64_t *begun) {
    if (!(G.marked_kinds >> kind & 1) || T.busy) return 0;
    uint64_t since = now(), took;
    PyObject *type, *value, *trace, *marker = Py_NewRef(G.marker);
    PyErr_Fetch(&type, &value, &trace);
    T.busy++;
    PyObject *done = PyObject_CallFunction(marker, "HKKii", thread, (unsigned long long)start, (unsigned long long)at, edge, depth);
    T.busy--;
    took = now() - since;
    G.header->own += took;
    if (begun && *begun) *begun += took;
    int marked = done == Py_True;
    Py_DECREF(marker);
    Py_XDECREF(done);
    if (pass() < 0) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        return -1;
    }
    PyErr_Restore(type, value, trace);
    return marked;
}
static int mark(int kind, int edge, uint64_t start, uint64_t at, uint8_t depth, uint64_t *begun) {
    return mark_of(T.id, kind, edge, start, at, depth, begun);
}

static int attribute(PyObject *o, PyObject *name, PyObject **found) {
    *found = PyObject_GetAttr(o, name);
    return *found ? 0 : pass();
}
/* The same without calling the class's __getattr__, which may run any code. */
static int own_attribute(PyObject *o, PyObject *name, PyObject **found) {
    *found = PyObject_GenericGetAttr(o, name);
    return *found ? 0 : pass();
}

static const tensor_type *tensor_of(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    for (int i = 0; i < G.n_types; i++)
        if (G.types[i].type == type) return &G.types[i];
    return NULL;
}

/* Returns 1 while torch traces: reads would become part of the graph. Asks torch once per event. */
static int traced(void) {
    if (T.readable & UNTRACED || !G.tracing) return 0;
    PyObject *state = PyObject_CallNoArgs(G.tracing);           /* Each module call does this too, so its code is cached. */
    if (state == Py_None) T.readable |= UNTRACED;
    Py_XDECREF(state);
    return pass() < 0 ? -1 : !(T.readable & UNTRACED);
}

/* Returns 1 if a torch tensor may be read by its getters now. If the script has a mode active, which would see the
   reads, enters a context without modes: the guard, which the caller must leave. */
static int may_read(PyObject **guard) {
    *guard = NULL;
    int traces = traced();
    if (traces) return traces < 0 ? -1 : 0;
    if (T.readable & NO_MODES || !G.modes) return 1;
    PyObject *n = PyObject_CallNoArgs(G.modes);
    long modes = n ? PyLong_AsLong(n) : -1;
    Py_XDECREF(n);
    if (modes > 0 && (*guard = PyObject_CallNoArgs(G.without_modes))) {
        PyObject *entered = PyObject_CallMethodNoArgs(*guard, G.s_enter);
        if (!entered) Py_CLEAR(*guard);
        Py_XDECREF(entered);
    }
    if (!modes) T.readable |= NO_MODES;
    return pass() < 0 ? -1 : modes == 0 || *guard;
}
static int leave_guard(PyObject *guard) {
    if (!guard) return 0;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *left = PyObject_CallMethodObjArgs(guard, G.s_exit, Py_None, Py_None, Py_None, NULL);
    Py_XDECREF(left);
    Py_DECREF(guard);
    int status = pass();
    if (!status) PyErr_Restore(type, value, trace);
    return status;
}

/* An attribute of one of torch's tensors. */
static int torch_get(PyObject *o, int which, PyObject **found) {
    getter get = which == 0 ? G.torch.ndim : which == 1 ? G.torch.shape : which == 2 ? G.torch.is_cpu : G.torch.dtype;
    PyObject *names[] = {G.s_ndim, G.s_shape, G.s_is_cpu, G.s_dtype};
    *found = get ? get(o, G.torch.closures[which]) : PyObject_GetAttr(o, names[which]);
    return *found ? 0 : pass();
}
enum { NDIM, SHAPE_OF, IS_CPU, DTYPE };

/* Describes a torch tensor in one call, which is invisible to graphs and modes. After a step, torch's code is out of
   the caches, and four getters take three times as long. Nothing is read while torch traces; this is not checked for
   loaders' batches and the argument of backward, because the check costs as much as the read. Tensors without memory,
   as in torch.func, take microseconds to fail: after the first, only the getters are used. Returns 1 if described. */
static int describe(PyObject *o, const tensor_type *tensor, described_t *t) {
    if (!G.torch.describe || tensor->how != TORCH) return 0;
    int traces = T.hooked ? 0 : traced();
    if (traces) return traces < 0 ? -1 : 0;
    if (!G.torch.describe(o, t)) return 1;
    G.torch.describe = NULL;
    return pass();
}

/* The struct code of a dtype, from its kind and bits; 0 if it is not supported. */
static char dtype_of(const described_t *t) {
    switch (t->lanes == 1 ? t->code << 8 | t->bits : -1) {
    case 2 << 8 | 32: return 'f';
    case 2 << 8 | 64: return 'd';
    case 0 << 8 | 64: return 'q';
    case 0 << 8 | 32: return 'i';
    case 2 << 8 | 16: return 'e';
    case 4 << 8 | 16: return 'b';
    case 6 << 8 | 8: return '?';
    }
    return 0;
}

static int dimensions(PyObject *o, long *n) {
    PyObject *found;
    *n = -1;
    if (torch_get(o, NDIM, &found) < 0) return -1;
    if (found && PyLong_CheckExact(found)) *n = PyLong_AsLong(found);
    Py_XDECREF(found);
    return 0;
}

static double from_memory(const void *p, char code) {
    float f;
    double d;
    int64_t q;
    int32_t i;
    uint16_t h;
    switch (code) {
    case 'f': memcpy(&f, p, 4); return f;
    case 'd': memcpy(&d, p, 8); return d;
    case 'q': memcpy(&q, p, 8); return (double)q;
    case 'i': memcpy(&i, p, 4); return i;
    case 'e': return PyFloat_Unpack2(p, PY_LITTLE_ENDIAN);
    case 'b':
        memcpy(&h, p, 2);
        i = (int32_t)((uint32_t)h << 16);
        memcpy(&f, &i, 4);
        return f;
    case '?': return *(const uint8_t *)p != 0;
    }
    return NAN;
}

/* Reads a tensor with one element from its memory, three times as fast as item(). A tensor on a device is held: its
   value follows in a LATE event. Returns 1 if it was read or will follow. */
static int tensor_number(PyObject *o, const tensor_type *tensor, uint16_t site, uint64_t start, double *value, uint8_t *flags) {
    described_t t;
    long how = tensor->how;
    T.readable = 0;
    int found = describe(o, tensor, &t);
    if (found < 0) return -1;
    if (found) {
        for (int32_t i = 0; i < t.ndim; i++)
            if (t.shape[i] != 1) return 0;
        if (t.device == ON_CPU) {
            char code = t.data ? dtype_of(&t) : 0;
            if (code) *value = from_memory((char *)t.data + t.offset, code);
            return code != 0;
        }
    }
    PyObject *shape = NULL, *cpu = NULL, *dtype = NULL, *pointer = NULL, *guard = NULL;
    int status = -1, one = 1;
    char code = 0;
    long n = 0;
    if (how == TORCH && (status = may_read(&guard)) != 1) return status;
    status = -1;
    if (how == TORCH && dimensions(o, &n) < 0) goto done;
    if (how != TORCH || n) {                                    /* All dimensions must be 1. */
        if ((how == TORCH ? torch_get(o, SHAPE_OF, &shape) : own_attribute(o, G.s_shape, &shape)) < 0) goto done;
        if (!shape || !PyTuple_Check(shape)) { status = 0; goto done; }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); i++) {
            PyObject *size = PyTuple_GET_ITEM(shape, i);
            one &= PyLong_CheckExact(size) && PyLong_AsLong(size) == 1;
        }
        if (!one) { status = pass(); goto done; }
    }
    if (how == TORCH && torch_get(o, IS_CPU, &cpu) < 0) goto done;
    if (cpu != Py_True) {
        if (G.hold && start && (cpu || how == HELD)) {
            PyObject *held = PyObject_CallFunction(G.hold, "OHK", o, site, (unsigned long long)start);
            if (held == Py_True) *flags |= LATER;
            Py_XDECREF(held);
        }
        status = pass() < 0 ? -1 : (*flags & LATER) != 0;
        goto done;
    }
    if (torch_get(o, DTYPE, &dtype) < 0) goto done;
    for (int i = 0; i < G.n_dtypes; i++)
        if (G.dtypes[i].dtype == dtype) code = G.dtypes[i].code;
    if (code) {
        pointer = G.torch.data_ptr ? G.torch.data_ptr(o, NULL) : PyObject_CallMethodNoArgs(o, G.s_data_ptr);
        void *p = pointer && PyLong_Check(pointer) ? PyLong_AsVoidPtr(pointer) : NULL;
        if (p) *value = from_memory(p, code);
        one = p != NULL;
    } else {
        one = 0;
    }
    status = pass() < 0 ? -1 : one;
done:
    if (leave_guard(guard) < 0) status = -1;
    Py_XDECREF(shape);
    Py_XDECREF(cpu);
    Py_XDECREF(dtype);
    Py_XDECREF(pointer);
    return status;
}

/* Reads a number; returns 1 if it was read or will follow, 0 if it cannot be read. */
static int number(PyObject *o, uint16_t site, uint64_t start, double *value, uint8_t *flags) {
    *value = NAN;
    if (PyFloat_Check(o)) {
        *value = PyFloat_AS_DOUBLE(o);
        return 1;
    }
    if (PyLong_Check(o)) {
        double d = PyLong_AsDouble(o);
        if (d == -1.0 && PyErr_Occurred()) return pass();
        *value = d;
        return 1;
    }
    const tensor_type *tensor = tensor_of(o);
    if (tensor && tensor->how) return tensor_number(o, tensor, site, start, value, flags);
    if ((PyTuple_Check(o) || PyList_Check(o)) && Py_SIZE(o) == 1)
        return number(PySequence_Fast_GET_ITEM(o, 0), site, start, value, flags);
    if (!strncmp(Py_TYPE(o)->tp_name, "numpy.", 6) && Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float) {
        PyObject *f = Py_TYPE(o)->tp_as_number->nb_float(o);
        int read = f && PyFloat_Check(f);
        if (read) *value = PyFloat_AS_DOUBLE(f);
        Py_XDECREF(f);
        return pass() < 0 ? -1 : read;
    }
    return 0;
}

/* The first dimension of a tensor with at least `least` dimensions; else NaN. */
static int rows(PyObject *o, const tensor_type *tensor, long least, double *value) {
    described_t t;
    *value = NAN;
    int found = describe(o, tensor, &t);
    if (found < 0) return -1;
    if (found) {
        if (t.ndim >= least) *value = (double)t.shape[0];
        return 0;
    }
    if (tensor->how == TORCH && G.torch.length) {
        PyObject *guard;
        long n = -1;
        int status = may_read(&guard);
        if (status != 1) return status;
        status = dimensions(o, &n);
        Py_ssize_t size = n >= least ? G.torch.length(o) : -1;
        if (size >= 0) *value = (double)size;
        if (pass() < 0) status = -1;
        return leave_guard(guard) < 0 ? -1 : status;
    }
    PyObject *shape;
    if (own_attribute(o, G.s_shape, &shape) < 0) return -1;
    if (shape && PyTuple_Check(shape) && PyTuple_GET_SIZE(shape) >= least && PyLong_CheckExact(PyTuple_GET_ITEM(shape, 0)))
        *value = PyLong_AsDouble(PyTuple_GET_ITEM(shape, 0));
    Py_XDECREF(shape);
    return pass();
}

static int is_mapping(PyObject *o) { return PyDict_Check(o); }
static int is_number(PyObject *o) { return PyFloat_Check(o) || PyLong_Check(o); }
static int is_scalar(PyObject *o) {
    return o == Py_None || PyFloat_Check(o) || PyLong_Check(o) || PyUnicode_Check(o) || PyBytes_Check(o);
}

/* Size attributes of an object, as of batches in PyTorch Geometric or TensorDict. */
static int stated(PyObject *o, double *value) {
    for (int i = 0; i < 3; i++) {
        PyObject *n;
        if (own_attribute(o, G.s_stated[i], &n) < 0) return -1;
        if (n && PyTuple_Check(n) && PyTuple_GET_SIZE(n)) {     /* TensorDict's batch_size is a shape. */
            PyObject *first = Py_NewRef(PyTuple_GET_ITEM(n, 0));
            Py_SETREF(n, first);
        }
        if (n && PyLong_CheckExact(n)) *value = PyLong_AsDouble(n);
        Py_XDECREF(n);
        if (pass() < 0) return -1;
        if (!isnan(*value)) return 0;
    }
    return 0;
}

static int length(PyObject *o, int deep, double *value);

/* A dictionary's length is that of the majority of its tensors, since some may be weights or positions. Without
   tensors, it is that of its first member with a length. */
static int mapping(PyObject *o, int deep, double *value) {
    Py_ssize_t at = 0;
    PyObject *key, *member;
    const tensor_type *tensor;
    double sizes[WIDE];
    int n = 0;
    for (int i = 0; i < WIDE && PyDict_Next(o, &at, &key, &member); i++) {
        if (!(tensor = tensor_of(member))) continue;
        Py_INCREF(member);
        int status = rows(member, tensor, 1, &sizes[n]);
        Py_DECREF(member);
        if (status < 0) return -1;
        n += !isnan(sizes[n]);
    }
    for (int i = 0; i < n; i++) {
        int alike = 0;
        for (int j = 0; j < n; j++) alike += sizes[j] == sizes[i];
        if (2 * alike > n) *value = sizes[i];
    }
    if (n) {
        T.ambiguous |= isnan(*value);
        return 0;
    }
    at = 0;
    for (int i = 0; i < WIDE && PyDict_Next(o, &at, &key, &member); i++) {
        Py_INCREF(member);
        int status = is_scalar(member) ? 0 : length(member, deep + 1, value);
        Py_DECREF(member);
        if (status < 0 || !isnan(*value)) return status;
    }
    return 0;
}

/* Returns 1 if a tensor may be a single image: channels, then two more dimensions. */
static int picture(PyObject *o, const tensor_type *tensor, double size) {
    double three, four;
    if (size != 1.0 && size != 3.0 && size != 4.0) return 0;
    if (rows(o, tensor, 3, &three) < 0 || rows(o, tensor, 4, &four) < 0) return -1;
    return !isnan(three) && isnan(four);
}

static int shape_of(PyObject *o, PyObject **found) {
    return tensor_of(o)->how == TORCH ? torch_get(o, SHAPE_OF, found) : own_attribute(o, G.s_shape, found);
}
static int same_shape(PyObject *a, PyObject *b) {
    described_t x, y;
    int found = describe(a, tensor_of(a), &x);
    if (found > 0) found = describe(b, tensor_of(b), &y);
    if (found < 0) return -1;
    if (found)
        return x.ndim == y.ndim && (!x.ndim || !memcmp(x.shape, y.shape, (size_t)x.ndim * sizeof *x.shape));
    PyObject *one = NULL, *other = NULL, *guard;
    int status = may_read(&guard);
    if (status != 1) return status;
    int same = shape_of(a, &one) < 0 || shape_of(b, &other) < 0 ? -1 : 0;
    if (!same && one && other && PyTuple_Check(one) && PyTuple_Check(other)) same = PyObject_RichCompareBool(one, other, Py_EQ);
    Py_XDECREF(one);
    Py_XDECREF(other);
    return leave_guard(guard) < 0 ? -1 : same;
}

/* Returns 1 if a list's members are lists or tuples that are samples: each mixes types of values, or they differ in
   length. Returns 2 if they may be samples or columns. */
static int samples(PyObject *o) {
    Py_ssize_t n = Py_SIZE(o), longest = -1;
    int ragged = 0, mixed = 0, tensors = 0;
    for (Py_ssize_t i = 0; i < n && i < WIDE; i++) {
        PyObject *row = PySequence_Fast_GET_ITEM(o, i);
        if (!PyTuple_Check(row) && !PyList_Check(row)) return 0;
        ragged |= longest >= 0 && Py_SIZE(row) != longest;
        longest = Py_SIZE(row);
        PyTypeObject *first = NULL;
        int kinds = 0;
        for (Py_ssize_t j = 0; j < longest && j < WIDE; j++) {
            PyObject *value = PySequence_Fast_GET_ITEM(row, j);
            if (!is_scalar(value)) tensors++;
            kinds |= first && Py_TYPE(value) != first && (!is_number(value) || !is_number(PySequence_Fast_GET_ITEM(row, 0)));
            if (!first) first = Py_TYPE(value);
        }
        mixed += kinds;
    }
    if (mixed == (n < WIDE ? n : WIDE) || (ragged && !tensors)) return 1;
    return tensors || n < 2 ? 0 : 2;
}

/* A list or tuple: its size is the common length of its tensors, or the number of its dictionaries or samples.
   Images, or many tensors of one shape, may be a batch or a list of samples: unknown. */
static int members(PyObject *o, int deep, double *value) {
    Py_ssize_t n = Py_SIZE(o);
    int tensors = 0, mappings = 0, scalars = 0, unequal = 0, pictures = 0, alike = 1, status;
    const tensor_type *tensor;
    PyObject *first_tensor = NULL;
    double first = NAN;
    for (Py_ssize_t i = 0; i < n && i < WIDE && i < Py_SIZE(o); i++) {
        PyObject *member = PySequence_Fast_GET_ITEM(o, i);
        if (is_scalar(member)) {
            scalars++;
        } else if (is_mapping(member)) {
            mappings++;
        } else if ((tensor = tensor_of(member))) {
            double size;
            Py_INCREF(member);
            status = rows(member, tensor, 1, &size);
            int alone = status < 0 ? -1 : picture(member, tensor, size), same = alone < 0 ? -1 : 0;
            if (n > SAME && first_tensor && same == 0 && alike) same = same_shape(first_tensor, member);
            Py_DECREF(member);
            if (alone < 0 || same < 0) return -1;
            if (isnan(size)) continue;
            pictures += alone;
            alike &= !first_tensor || same;
            unequal |= tensors && size != first;
            if (!tensors++) {
                first = size;
                first_tensor = member;
            }
        }
    }
    Py_ssize_t looked = n < WIDE ? n : WIDE;
    if (n && (mappings == looked || (scalars == looked && !deep))) {
        if (n > 1 || !mappings || deep) *value = (double)n;     /* A single dictionary may be a whole batch, as in DALI. */
        return 0;
    }
    if (tensors) {
        int aside = tensors == looked && n > SAME && alike;
        if (!unequal && !aside && !(pictures == looked && (deep || n > 3))) *value = first;
        return 0;
    }
    status = n ? samples(o) : 0;
    if (status) {
        if (status == 1) *value = (double)n;
        return 0;
    }
    for (Py_ssize_t i = 0; i < WIDE && i < Py_SIZE(o); i++) {
        PyObject *member = Py_NewRef(PySequence_Fast_GET_ITEM(o, i));
        status = is_scalar(member) ? 0 : length(member, deep + 1, value);
        Py_DECREF(member);
        if (status < 0 || !isnan(*value)) return status;
    }
    if (scalars == looked && n) *value = (double)n;
    return 0;
}

static int length(PyObject *o, int deep, double *value) {
    *value = NAN;
    if (!deep) T.readable = 0;
    if (deep > DEEP || is_scalar(o)) return 0;
    const tensor_type *tensor = tensor_of(o);
    if (tensor) return rows(o, tensor, 1, value);
    if (PyTuple_CheckExact(o) || PyList_Check(o)) return members(o, deep, value);
    if (PyDict_Check(o)) return mapping(o, deep, value);
    if (stated(o, value) < 0) return -1;
    if (!isnan(*value)) return 0;
    if (PyTuple_Check(o)) return members(o, deep, value);
    /* UserDict and similar classes have a dictionary; `data` of a tensor subclass is a property, which runs code. */
    PyObject *space = PyObject_GenericGetDict(o, NULL);
    PyObject *data = space && PyDict_Check(space) ? Py_XNewRef(PyDict_GetItemWithError(space, G.s_data)) : NULL;
    Py_XDECREF(space);
    int status = pass();
    if (!status && data && PyDict_Check(data)) status = mapping(data, deep, value);
    Py_XDECREF(data);
    return status;
}

/* Rows of a model's input; NaN for a vector, which may be a single sample. */
static int model_rows(PyObject *o, double *value) {
    T.readable = 0;
    const tensor_type *tensor = tensor_of(o);
    return tensor ? rows(o, tensor, 2, value) : length(o, 0, value);
}

static int has_members(PyObject *space, PyObject *name) {
    PyObject *found = PyDict_GetItemWithError(space, name);
    return found && PyDict_Check(found) && PyDict_GET_SIZE(found) > 0;
}

/* Looks a module's state up in its __dict__, without searching its class first. */
static int module_flags(PyObject *module, uint8_t *flags) {
    PyObject *space = PyObject_GenericGetDict(module, NULL), *grad, *training = NULL;
    if (space && PyDict_Check(space) && (has_members(space, G.s_parameters) || has_members(space, G.s_modules))) {
        *flags |= MODEL;
        grad = G.grad_enabled ? PyObject_CallNoArgs(G.grad_enabled) : NULL;
        if (grad == Py_True) *flags |= GRAD;
        Py_XDECREF(grad);
        if (!pass()) training = Py_XNewRef(PyDict_GetItemWithError(space, G.s_training));
        if (!training && !PyErr_Occurred()) attribute(module, G.s_training, &training);   /* A compiled module delegates to the original. */
        if (training == Py_True) *flags |= TRAINING;
        Py_XDECREF(training);
    }
    Py_XDECREF(space);
    return pass();
}

static int current_task(uintptr_t *task) {
    *task = 0;
    if (!G.running_loop) return 0;
    PyObject *loop = PyObject_CallNoArgs(G.running_loop);
    if (!loop) return pass();
    if (loop != Py_None) {
        PyObject *found = PyObject_CallOneArg(G.current_task, loop);
        if (!found) { Py_DECREF(loop); return pass(); }
        if (found != Py_None) *task = (uintptr_t)found;
        Py_DECREF(found);
    }
    Py_DECREF(loop);
    return 0;
}

/* Spans: the header shows each thread's outermost open span. */

static inline uint64_t enter(int kind) {
    uint64_t start = now();
    if (!T.depth && T.shown >= 0) {
        G.header->threads[T.shown].since = start;
        G.header->threads[T.shown].kind = (uint8_t)kind;
    }
    if (T.depth < 255) T.depth++;
    if (kind == OPTIMIZER) T.optimizers++;
    return start;
}
static inline void leave(int kind, uint8_t depth) {
    T.depth = depth;
    if (kind == OPTIMIZER && T.optimizers) T.optimizers--;
    if (!depth && T.shown >= 0) G.header->threads[T.shown].kind = 0;
}

/* Open pairs, the latest on top. */

static pair_t *push(void) {
    if (T.n_open == T.room) {
        int room = T.room ? T.room * 2 : 16;
        if (room > OPEN_PAIRS) {                                /* Drop the oldest, which probably never ends. */
            memmove(T.open, T.open + 1, (size_t)(T.n_open - 1) * sizeof(pair_t));
            return &T.open[T.n_open - 1];
        }
        pair_t *open = realloc(T.open, (size_t)room * sizeof(pair_t));
        if (!open) return NULL;
        T.open = open;
        T.room = room;
    }
    return &T.open[T.n_open++];
}
static int find(uint32_t pair, uint32_t object, uintptr_t task) {
    for (int i = T.n_open - 1; i >= 0; i--)
        if (T.open[i].pair == pair && T.open[i].object == object && T.open[i].task == task) return i;
    return -1;
}
static void take_out(int at) {
    memmove(T.open + at, T.open + at + 1, (size_t)(T.n_open - at - 1) * sizeof(pair_t));
    T.n_open--;
}

/* Site: inserted code and hooks call its bound methods. */

typedef struct { uint16_t site; uint8_t kind, ring, index, read; } record_t;
typedef struct {
    PyObject_HEAD
    PyObject *keys, *bus, *intercept, *name;
    PyObject *tasked, *tasks;           /* Creates the sites of a task's records; those created so far. */
    uint64_t fired;
    long long hand;
    uint32_t pair;
    int n_records, silent, last;        /* last: its calls are at exits of code, exceptions included. */
    uint8_t role, focus, kind, ring, entered;
    uint16_t number;
    record_t records[RECORDS];
} Site;

static int site_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"number", "kind", "ring", "keys", "focus", "role", "pair", "name", NULL};
    Site *s = (Site *)self;
    PyObject *keys = NULL, *name = Py_None;
    int number = 0, kind = 0, ring = STRUCTURE, focus = 0, role = PLAIN;
    unsigned int pair = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|iiiO!iiIO", names, &number, &kind, &ring, &PyTuple_Type, &keys, &focus, &role, &pair, &name))
        return -1;
    Py_ssize_t size = keys ? PyTuple_GET_SIZE(keys) : 0;
    if (ring < 0 || ring > VALUES || size > 254 || focus < 0 || (size && focus >= size)) {
        PyErr_SetString(PyExc_ValueError, "ring is 0 or 1, and focus the index of one of at most 254 keys");
        return -1;
    }
    s->number = (uint16_t)number;
    s->kind = (uint8_t)kind;
    s->focus = (uint8_t)focus;
    s->ring = (uint8_t)ring;
    s->role = (uint8_t)role;
    s->pair = pair;
    Py_XSETREF(s->keys, keys ? Py_NewRef(keys) : PyTuple_New(0));
    Py_XSETREF(s->name, name == Py_None ? NULL : Py_NewRef(name));
    return s->keys ? 0 : -1;
}
static int site_traverse(Site *s, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(s));
    Py_VISIT(s->keys);
    Py_VISIT(s->bus);
    Py_VISIT(s->intercept);
    Py_VISIT(s->tasked);
    Py_VISIT(s->tasks);
    return 0;
}
static int site_clear(Site *s) {
    Py_CLEAR(s->bus);
    Py_CLEAR(s->intercept);
    Py_CLEAR(s->tasked);
    Py_CLEAR(s->tasks);
    return 0;
}
static void site_free(Site *s) {
    PyTypeObject *type = Py_TYPE(s);
    PyObject_GC_UnTrack(s);
    site_clear(s);
    Py_CLEAR(s->keys);
    Py_CLEAR(s->name);
    type->tp_free(s);
    Py_DECREF(type);
}

static PyObject *site_record(PyObject *self, PyObject *args) {
    Site *s = (Site *)self;
    int site, kind, ring, index, read;
    if (!PyArg_ParseTuple(args, "iiiii", &site, &kind, &ring, &index, &read)) return NULL;
    if (s->n_records == RECORDS || ring < 0 || ring > VALUES || index < -1 || index > 254) {
        PyErr_Format(PyExc_ValueError, "a site records %d events at most, in ring 0 or 1", RECORDS);
        return NULL;
    }
    s->records[s->n_records++] = (record_t){(uint16_t)site, (uint8_t)kind, (uint8_t)ring, (uint8_t)index, (uint8_t)read};
    Py_RETURN_NONE;
}

/* Number of items in a given batch; the user's function, if set, determines it. */
static int given_length(PyObject *o, double *value) {
    if (!G.size_of) return length(o, 0, value);
    uint64_t since = now();
    PyObject *size_of = Py_NewRef(G.size_of);
    T.busy++;
    PyObject *found = PyObject_CallOneArg(size_of, o);
    T.busy--;
    if (!T.busy) G.header->own += now() - since;
    Py_DECREF(size_of);
    if (!found) return -1;                                      /* A requested stop, or Ctrl-C. */
    if (PyFloat_CheckExact(found)) *value = PyFloat_AS_DOUBLE(found);
    Py_DECREF(found);
    return 0;
}

/* Keeps the first type of loss, and of batch, that could not be read, for the report. */
static void unread(int which, PyObject *o) {
    if (!G.unread[which] && o != Py_None) G.unread[which] = (PyTypeObject *)Py_NewRef(Py_TYPE(o));
}

static int read_value(PyObject *o, const record_t *r, uint16_t site, uint64_t start, double *value, uint8_t *flags) {
    *value = NAN;
    if (!o) return 0;
    if (r->read == NUMBER) {
        int read = number(o, site, start, value, flags);
        if (r->kind == LOSS && !read) {
            *flags |= FAILED;
            unread(0, o);
        }
        return read < 0 ? -1 : 0;
    }
    if (r->read != LENGTH) return 0;
    if (given_length(o, value) < 0) return -1;
    if (isnan(*value)) unread(1, o);
    return 0;
}

/* The value of the key with this index; a single value is the focus. */
static PyObject *given(const Site *s, PyObject *const *a, Py_ssize_t n, PyObject *event, uint8_t index) {
    if (index == 255) return NULL;
    if (event) return PyDict_GetItemWithError(event, PyTuple_GET_ITEM(s->keys, index));
    if (n == PyTuple_GET_SIZE(s->keys)) return index < n ? a[index] : NULL;
    return n && index == s->focus ? a[0] : NULL;
}

/* The sites of the event's task, which is the value of key `task`, or inherited. Python creates them at the task's
   first event. */
static int sites_of_task(Site *s, PyObject *const *a, Py_ssize_t n, PyObject *event, uint16_t *sites) {
    PyObject *task = NULL, *inherited = NULL, *made;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(s->keys) && !task; i++)
        if (PyTuple_GET_ITEM(s->keys, i) == G.s_task) task = Py_XNewRef(given(s, a, n, event, (uint8_t)i));
    if (!task && G.inherited && PyContextVar_Get(G.inherited, NULL, &inherited) < 0) return -1;
    if (inherited && PyDict_Check(inherited)) task = Py_XNewRef(PyDict_GetItemWithError(inherited, G.s_task));
    Py_XDECREF(inherited);
    if (!task || !PyUnicode_CheckExact(task)) {
        Py_XDECREF(task);
        return pass();
    }
    if (!s->tasks && !(s->tasks = PyDict_New())) { Py_DECREF(task); return pass(); }
    made = Py_XNewRef(PyDict_GetItemWithError(s->tasks, task));
    if (!made && PyDict_GET_SIZE(s->tasks) < TASKS) {
        PyObject *tasked = Py_NewRef(s->tasked);
        T.busy++;
        made = PyObject_CallOneArg(tasked, task);
        T.busy--;
        Py_DECREF(tasked);
        if (made && PyTuple_Check(made) && PyTuple_GET_SIZE(made) == s->n_records)
            PyDict_SetItem(s->tasks, task, made);
        else
            Py_CLEAR(made);
    }
    for (int i = 0; made && i < s->n_records; i++) sites[i] = (uint16_t)PyLong_AsUnsignedLongMask(PyTuple_GET_ITEM(made, i));
    Py_XDECREF(made);
    Py_DECREF(task);
    return pass();
}

/* The exception being handled; only compared, so it need not be alive. */
static void *handled(void) {
    PyObject *exception = PyErr_GetHandledException();
    Py_XDECREF(exception);
    return exception;
}
/* Returns 1 if an exception other than `before` is leaving the loop or call. */
static int leaves(const Site *s, const void *before) {
    if (!s->last) return 0;
    const void *now_handled = handled();
    return now_handled && now_handled != before;
}

/* Records the site's events. Sets `id` to the number of the pair begun or ended; 0 for an end without a beginning. */
static int record(Site *s, PyObject *const *a, Py_ssize_t n, PyObject *event, uint64_t *id, uint64_t *begun) {
    uint64_t start = now();
    double value;
    uintptr_t task = 0;
    uint16_t sites[RECORDS];
    for (int i = 0; i < s->n_records; i++) sites[i] = s->records[i].site;
    if (s->tasked && sites_of_task(s, a, n, event, sites) < 0) return -1;
    if ((s->role != PLAIN || s->entered) && current_task(&task) < 0) return -1;
    if (s->role == PLAIN) {
        uint8_t left = 0;
        if (s->entered) {
            int at = find(ENTERED | s->number, 0, task);
            if (at >= 0 && leaves(s, T.open[at].handled)) left = FAILED;
        }
        for (int i = 0; i < s->n_records; i++) {
            const record_t *r = &s->records[i];
            uint8_t flags = 0;
            PyObject *of = given(s, a, n, event, r->index);
            if (r->kind == ENTERS || (!of && r->kind == LOSS)) continue;    /* The variable is not bound yet. */
            if (read_value(of, r, sites[i], start, &value, &flags) < 0) return -1;
            int marked = r->ring == STRUCTURE ? mark(r->kind, PLAIN, start, start, T.depth, begun) : 0;
            if (marked < 0) return -1;
            put(r->ring, r->kind, sites[i], start, 0, value, 0, flags | (marked ? MARKED : 0) | (r->kind == STEP ? left : 0));
        }
        return PyErr_Occurred() ? -1 : 0;
    }
    const record_t *r = s->n_records ? &s->records[0] : NULL;
    uint8_t flags = 0;
    value = NAN;
    if (r && read_value(given(s, a, n, event, r->index), r, 0, 0, &value, &flags) < 0) return -1;
    pair_t ended = {.marked = 1};
    if (s->role == ENDS) {
        int at = find(s->pair, 0, task);
        if (at < 0) return 0;
        ended = T.open[at];
        *id = ended.id;
        take_out(at);
    }
    int marked = r && ended.marked && r->ring == STRUCTURE ? mark(r->kind, PLAIN, start, start, T.depth, begun) : 0;
    if (marked < 0) return -1;
    if (marked) flags |= MARKED;
    if (s->role == BEGINS) {
        pair_t *p = push();
        *id = ++G.pairs;
        if (p)
            *p = (pair_t){.start = start, .value = value, .task = task, .id = *id, .handled = handled(), .pair = s->pair, .marked = (uint8_t)marked};
        if (r && r->ring == STRUCTURE) put(r->ring, r->kind, sites[0], start, 0, value, 0, flags);
        return 0;
    }
    if (leaves(s, ended.handled)) flags |= FAILED;
    if (r) put(r->ring, r->kind, sites[0], ended.start, start - ended.start, isnan(value) ? ended.value : value, 0, flags);
    return 0;
}

/* site.enter_loop(): records the start of a loop or call that contains the site's events. */
static PyObject *site_enter_loop(PyObject *self, PyObject *unused) {
    (void)unused;
    Site *s = (Site *)self;
    uintptr_t task;
    uint16_t sites[RECORDS];
    if (G.muted || s->silent) Py_RETURN_NONE;
    uint64_t begun = timed(), start = now();
    here();
    for (int i = 0; i < s->n_records; i++) {
        const record_t *r = &s->records[i];
        if (r->kind != ENTERS && r->kind != WAITS) continue;
        for (int j = 0; j < s->n_records; j++) sites[j] = s->records[j].site;
        if (s->tasked && sites_of_task(s, NULL, 0, NULL, sites) < 0) return NULL;
        int marked = mark(r->kind, PLAIN, start, start, T.depth, &begun);
        if (marked < 0) return NULL;
        put(STRUCTURE, r->kind, sites[i], start, 0, NAN, 0, marked ? MARKED : 0);
    }
    if (s->role == PLAIN && s->last) {
        if (current_task(&task) < 0) return NULL;
        s->entered = 1;
        int at = find(ENTERED | s->number, 0, task);
        pair_t *p = at >= 0 ? &T.open[at] : push();
        if (p) *p = (pair_t){.task = task, .pair = ENTERED | s->number, .handled = handled()};
    }
    cost(begun);
    Py_RETURN_NONE;
}

static PyObject *event_of(const Site *s, PyObject *const *a, Py_ssize_t n, uint64_t id) {
    PyObject *event = PyDict_New();
    if (!event) return NULL;
    Py_ssize_t size = PyTuple_GET_SIZE(s->keys);
    if (n == size) {
        for (Py_ssize_t i = 0; i < n; i++)
            if (PyDict_SetItem(event, PyTuple_GET_ITEM(s->keys, i), a[i]) < 0) goto fail;
    } else if (n && PyDict_SetItem(event, PyTuple_GET_ITEM(s->keys, s->focus), a[0]) < 0) {
        goto fail;
    }
    if (s->role != PLAIN) {
        PyObject *wrap = PyDict_New(), *number = PyLong_FromUnsignedLongLong(id);
        int failed = !wrap || !number || PyDict_SetItem(wrap, G.s_name, s->name ? s->name : Py_None) < 0 ||
                     PyDict_SetItem(wrap, G.s_step, s->role == BEGINS ? G.s_begin : G.s_end) < 0 ||
                     PyDict_SetItem(wrap, G.s_id, number) < 0 || PyDict_SetItem(event, G.s_wrap, wrap) < 0;
        Py_XDECREF(wrap);
        Py_XDECREF(number);
        if (failed) goto fail;
    }
    return event;
fail:
    Py_DECREF(event);
    return NULL;
}

/* Passes an event to Python, for subscribers and occasionally the record. The time counts as voir's overhead. */
static int hand_over(Site *s, PyObject *event, uint64_t *begun) {
    if (s->hand > 0) s->hand--;
    PyObject *bus = Py_NewRef(s->bus);
    uint64_t since = now();
    T.busy++;
    PyObject *done = PyObject_CallOneArg(bus, event);
    T.busy--;
    uint64_t took = now() - since;
    if (!T.busy) G.header->own += took;
    if (*begun) *begun += took;
    Py_DECREF(bus);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int fire(Site *s, PyObject *const *a, Py_ssize_t n, PyObject *event, uint64_t *begun) {
    uint64_t id = 0;
    here();
    if (s->n_records || s->role != PLAIN) {
        if (record(s, a, n, event, &id, begun) < 0) return -1;
        if (s->role == ENDS && !id) return 0;
    }
    if (!s->hand || !s->bus) return 0;
    PyObject *made = event ? Py_NewRef(event) : event_of(s, a, n, id);
    if (!made) return -1;
    int status = hand_over(s, made, begun);
    Py_DECREF(made);
    return status;
}

/* site.event(*values): a value for each key, or the focus only. */
static PyObject *site_event(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    Site *s = (Site *)self;
    if (G.muted || s->silent) Py_RETURN_NONE;
    s->fired++;
    if (!s->n_records && !s->hand && s->role == PLAIN) Py_RETURN_NONE;
    uint64_t begun = timed();
    int status = fire(s, a, n, NULL, &begun);
    cost(begun);
    if (status < 0) return NULL;
    RETURN(Py_NewRef(Py_None));
}

/* site.given(event): the same for an event that is already a dictionary. */
static PyObject *site_given(PyObject *self, PyObject *event) {
    Site *s = (Site *)self;
    if (!PyDict_Check(event)) {
        PyErr_SetString(PyExc_TypeError, "an event is a dictionary");
        return NULL;
    }
    if (G.muted || s->silent) Py_RETURN_NONE;
    s->fired++;
    uint64_t begun = timed();
    int status = fire(s, NULL, 0, event, &begun);
    cost(begun);
    if (status < 0) return NULL;
    RETURN(Py_NewRef(Py_None));
}

/* site.relay(value, *others): the same in an expression; returns the value or its replacement. */
static PyObject *site_relay(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    Site *s = (Site *)self;
    if (!n) Py_RETURN_NONE;
    if (G.muted || s->silent) return Py_NewRef(a[0]);
    Py_ssize_t size = PyTuple_GET_SIZE(s->keys);
    PyObject *values[256], *result = NULL;
    int whole = n == size && size;
    if (whole) {                                                /* In the order of the keys. */
        for (Py_ssize_t i = 0, other = 1; i < size; i++) values[i] = i == s->focus ? a[0] : a[other++];
    } else {
        values[0] = a[0];
    }
    s->fired++;
    uint64_t begun = timed();
    int status = fire(s, values, whole ? size : 1, NULL, &begun);
    if (!status && s->intercept) {
        PyObject *event = event_of(s, values, whole ? size : 1, 0), *intercept = Py_NewRef(s->intercept);
        result = event ? PyObject_CallFunctionObjArgs(intercept, event, a[0], NULL) : NULL;
        Py_XDECREF(event);
        Py_DECREF(intercept);
    } else if (!status) {
        result = Py_NewRef(a[0]);
    }
    cost(begun);
    RETURN(result);
}

/* site.value(x), site.mark(): one event of the site's kind. */
static PyObject *site_value(PyObject *self, PyObject *o) {
    Site *s = (Site *)self;
    if (G.muted || s->silent) Py_RETURN_NONE;
    uint64_t begun = timed(), start = now();
    double value = NAN;
    uint8_t flags = 0;
    here();
    s->fired++;
    if (o && number(o, s->number, start, &value, &flags) < 0) return NULL;
    put(s->ring, s->kind, s->number, start, 0, value, 0, flags);
    cost(begun);
    RETURN(Py_NewRef(Py_None));
}

/* Closes the pair at this index, and spans above it; the script's pairs above it stay open. */
static pair_t close_pair(int kind, int at) {
    pair_t p = T.open[at];
    leave(kind, p.depth);
    T.optimizers = p.optimizers;
    int kept = at;
    for (int i = at + 1; i < T.n_open; i++)
        if (!T.open[i].structural) T.open[kept++] = T.open[i];
    T.n_open = kept;
    return p;
}

/* site.enter(object, ...), site.leave(object, ...): begin and end a span, as in an optimizer's hooks. A span left
   open by an exception is closed together with the span around it, or when it is entered again. */
static PyObject *site_enter(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    Site *s = (Site *)self;
    if (G.muted || s->silent) Py_RETURN_NONE;
    uint64_t begun = timed();
    here();
    while (T.n_open && T.open[T.n_open - 1].structural && T.open[T.n_open - 1].depth > T.depth) T.n_open--;
    int again = find(s->number, n ? identity(a[0]) : 0, 0);
    if (again >= 0) close_pair(s->kind, again);
    uint8_t depth = T.depth, optimizers = T.optimizers;
    pair_t *p = push();
    if (p) *p = (pair_t){.pair = s->number, .object = n ? identity(a[0]) : 0, .depth = depth, .optimizers = optimizers, .structural = 1, .kind = s->kind, .id = ++G.pairs};
    cost(begun);
    if (!p) Py_RETURN_NONE;
    uint64_t start = p->start = enter(s->kind);
    int at = T.n_open - 1, marked = s->ring == STRUCTURE ? mark(s->kind, BEGINS, start, start, depth, NULL) : 0;
    if (marked < 0) {
        leave(s->kind, depth);
        T.n_open = at;
        return NULL;
    }
    T.open[at].marked = (uint8_t)marked;                        /* Not p: the marker runs Python, which may move T.open. */
    Py_RETURN_NONE;
}
static PyObject *site_leave(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    Site *s = (Site *)self;
    if (G.muted || s->silent) Py_RETURN_NONE;
    uint64_t end = now();
    here();
    int at = find(s->number, n ? identity(a[0]) : 0, 0);
    if (at < 0) Py_RETURN_NONE;
    uint64_t begun = timed();
    pair_t p = close_pair(s->kind, at);
    put(s->ring, s->kind, s->number, p.start, end - p.start, NAN, p.object, p.marked ? MARKED : 0);
    cost(begun);
    if (p.marked && mark(s->kind, ENDS, p.start, end, p.depth, NULL) < 0) return NULL;
    RETURN(Py_NewRef(Py_None));
}

/* `with site:` records a span in the site's ring; reentrant. */
static PyObject *site_with(PyObject *self, PyObject *unused) {
    (void)unused;
    Site *s = (Site *)self;
    uintptr_t task;
    if (G.muted || s->silent) return Py_NewRef(self);
    here();
    if (current_task(&task) < 0) return NULL;
    uint64_t start = now();
    int marked = s->ring == STRUCTURE ? mark(s->kind, PLAIN, start, start, T.depth, NULL) : 0;
    if (marked < 0) return NULL;
    pair_t *p = push();
    if (p) *p = (pair_t){.task = task, .pair = s->number, .object = identity(self), .start = start, .marked = (uint8_t)marked};
    if (s->n_records) put(STRUCTURE, s->records[0].kind, s->records[0].site, start, 0, NAN, 0, marked ? MARKED : 0);
    return Py_NewRef(self);
}
static PyObject *site_without(PyObject *self, PyObject *const *a, Py_ssize_t n) {
    Site *s = (Site *)self;
    uint64_t end = now();
    uintptr_t task;
    if (G.muted || s->silent) Py_RETURN_NONE;
    here();
    if (current_task(&task) < 0) return NULL;
    int at = find(s->number, identity(self), task);
    if (at < 0) Py_RETURN_NONE;
    uint64_t start = T.open[at].start;
    int marked = T.open[at].marked;
    take_out(at);
    s->fired++;
    if (marked && (marked = mark(s->kind, PLAIN, end, end, T.depth, NULL)) < 0) return NULL;
    put(s->ring, s->kind, s->number, start, end - start, NAN, 0, (marked ? MARKED : 0) | (n && a[0] != Py_None ? FAILED : 0));
    RETURN(Py_NewRef(Py_None));
}

static PyObject *site_get_bus(Site *s, void *unused) { (void)unused; return Py_NewRef(s->bus ? s->bus : Py_None); }
static int site_set_bus(Site *s, PyObject *value, void *unused) {
    (void)unused;
    Py_XSETREF(s->bus, value && value != Py_None ? Py_NewRef(value) : NULL);
    return 0;
}
static PyObject *site_get_intercept(Site *s, void *unused) { (void)unused; return Py_NewRef(s->intercept ? s->intercept : Py_None); }
static int site_set_intercept(Site *s, PyObject *value, void *unused) {
    (void)unused;
    Py_XSETREF(s->intercept, value && value != Py_None ? Py_NewRef(value) : NULL);
    return 0;
}
static PyObject *site_get_tasked(Site *s, void *unused) { (void)unused; return Py_NewRef(s->tasked ? s->tasked : Py_None); }
static int site_set_tasked(Site *s, PyObject *value, void *unused) {
    (void)unused;
    Py_XSETREF(s->tasked, value && value != Py_None ? Py_NewRef(value) : NULL);
    return 0;
}
static PyMemberDef site_members[] = {
    {"number", T_USHORT, offsetof(Site, number), READONLY, NULL},
    {"keys", T_OBJECT, offsetof(Site, keys), READONLY, NULL},
    {"role", T_UBYTE, offsetof(Site, role), READONLY, NULL},
    {"name", T_OBJECT, offsetof(Site, name), READONLY, NULL},
    {"fired", T_ULONGLONG, offsetof(Site, fired), 0, NULL},
    {"hand", T_LONGLONG, offsetof(Site, hand), 0, NULL},
    {"silent", T_INT, offsetof(Site, silent), 0, NULL},
    {"last", T_INT, offsetof(Site, last), 0, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyGetSetDef site_getset[] = {
    {"bus", (getter)site_get_bus, (setter)site_set_bus, NULL, NULL},
    {"intercept", (getter)site_get_intercept, (setter)site_set_intercept, NULL, NULL},
    {"tasked", (getter)site_get_tasked, (setter)site_set_tasked, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};
#define FAST(name) (PyCFunction)(void (*)(void))(name), METH_FASTCALL
static PyMethodDef site_methods[] = {
    {"record", site_record, METH_VARARGS, NULL},
    {"event", FAST(site_event), NULL},
    {"given", site_given, METH_O, NULL},
    {"relay", FAST(site_relay), NULL},
    {"value", site_value, METH_O, NULL},
    {"mark", site_value, METH_NOARGS, NULL},                    /* The value is NULL. */
    {"enter_loop", site_enter_loop, METH_NOARGS, NULL},
    {"enter", FAST(site_enter), NULL},
    {"leave", FAST(site_leave), NULL},
    {"__enter__", site_with, METH_NOARGS, NULL},
    {"__exit__", FAST(site_without), NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot site_slots[] = {
    {Py_tp_init, site_init}, {Py_tp_new, PyType_GenericNew}, {Py_tp_dealloc, site_free},
    {Py_tp_traverse, site_traverse}, {Py_tp_clear, site_clear}, {Py_tp_members, site_members},
    {Py_tp_getset, site_getset}, {Py_tp_methods, site_methods}, {0, NULL}};
static PyType_Spec site_spec = {"overseer.recorder._recorder.Site", sizeof(Site), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, site_slots};

/* Span: replaces a callable, behaves like it, and records each call. */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *inner;
    uint16_t site, inner_site;
    uint8_t kind, read;
    int8_t argument;
    PyObject *references, *groups;      /* groups: sites by the names of process groups. */
} Span;

/* Modules are identified by address; Python is called to name each one at its first call. */
static uint32_t *named(uint32_t id, uint32_t wanted) {
    for (uint32_t i = 0; i < NEAR; i++) {
        uint32_t *place = &G.named[((id * 2654435761u >> 18) + i) & (NAMED - 1)];
        if (*place == wanted) return place;
    }
    return NULL;
}
static int name_module(PyObject *const *a, size_t nf) {
    uint32_t id = PyVectorcall_NARGS(nf) ? identity(a[0]) : 0, *place;
    if (!id || !G.name || named(id, id) || !(place = named(id, 0))) return 0;
    *place = id;
    PyObject *name = Py_NewRef(G.name), *done = PyObject_CallOneArg(name, a[0]);
    Py_DECREF(name);
    Py_XDECREF(done);
    return done ? 0 : pass();
}

static PyObject *span_submodule(Span *s, PyObject *const *a, size_t nf, PyObject *names) {
    if (name_module(a, nf) < 0) return NULL;
    uint64_t begun = timed(), start = now();
    PyObject *result = PyObject_Vectorcall(s->inner, a, nf, names);
    uint64_t end = now();
    put(VALUES, 0, s->inner_site, start, end - start, NAN, PyVectorcall_NARGS(nf) ? identity(a[0]) : 0, result ? 0 : FAILED);
    if (begun) spent(now() - end + start - begun);
    return result;
}

/* Bytes of a collective's tensors: of a tensor, or of nested lists of tensors; NaN if unknown. */
static int bytes_of(PyObject *o, int deep, double *bytes) {
    described_t t;
    const tensor_type *tensor = tensor_of(o);
    *bytes = NAN;
    if (tensor) {
        int found = describe(o, tensor, &t);
        if (found < 1) return found;
        *bytes = t.bits * t.lanes / 8.0;
        for (int i = 0; i < t.ndim; i++) *bytes *= (double)t.shape[i];
        return 0;
    }
    if (deep > 2 || (!PyTuple_Check(o) && !PyList_Check(o))) return 0;
    for (Py_ssize_t i = 0; i < Py_SIZE(o) && i < TENSORS; i++) {
        double some;
        PyObject *member = Py_NewRef(PySequence_Fast_GET_ITEM(o, i));
        int status = bytes_of(member, deep + 1, &some);
        Py_DECREF(member);
        if (status < 0) return -1;
        if (!isnan(some)) *bytes = isnan(*bytes) ? some : *bytes + some;
    }
    return 0;
}

/* Reads a collective: the site of its group, its number in the group, and the bytes of the larger one of its input and
   output. Every rank of a group issues the same collectives in the same order, so their numbers are the same. */
static int read_collective(Span *s, PyObject *const *a, Py_ssize_t n, uint16_t *site, uint32_t *number, double *bytes) {
    double some;
    T.readable = 0;
    for (Py_ssize_t i = 0; i < n && i < 3; i++) {
        if (bytes_of(a[i], 0, &some) < 0) return -1;
        *bytes = fmax(*bytes, some);                            /* NaN is ignored. */
    }
    if (!n || !G.group || !G.numbers) return 0;
    PyObject *of = a[s->argument < 0 ? n - 1 : 0], *name = PyUnicode_CheckExact(of) ? Py_NewRef(of) : NULL, *found = NULL;
    if (!name && attribute(of, G.s_group_name, &name) < 0) return -1;
    if (name && PyUnicode_CheckExact(name) && (s->groups || (s->groups = PyDict_New()))) {
        found = Py_XNewRef(PyDict_GetItemWithError(s->groups, name));
        if (!found && PyDict_GET_SIZE(s->groups) < GROUPS) {    /* Python makes the site. */
            PyObject *group = Py_NewRef(G.group);
            T.busy++;
            found = PyObject_CallFunction(group, "iO", s->site, name);
            T.busy--;
            Py_DECREF(group);
            if (found) PyDict_SetItem(s->groups, name, found);
        }
        if (found && PyLong_CheckExact(found)) *site = (uint16_t)PyLong_AsUnsignedLongMask(found);
        Py_XDECREF(found);
        if (s->read == COLLECTIVE && !PyErr_Occurred()) {
            PyObject *before = PyDict_GetItemWithError(G.numbers, name);
            *number = before ? (uint32_t)PyLong_AsUnsignedLongMask(before) + 1 : 1;
            PyObject *now_at = PyLong_FromUnsignedLong(*number);
            if (now_at) PyDict_SetItem(G.numbers, name, now_at);
            Py_XDECREF(now_at);
        }
    }
    Py_XDECREF(name);
    return pass();
}

/* groups(site_of): site_of(site, name) returns the site of a process group's collectives of one kind; None: they have
   none of their own. Collectives are numbered anew. */
static PyObject *m_groups(PyObject *module, PyObject *site_of) {
    (void)module;
    Py_XSETREF(G.group, site_of == Py_None ? NULL : Py_NewRef(site_of));
    Py_XSETREF(G.numbers, PyDict_New());
    return G.numbers ? Py_NewRef(Py_None) : NULL;
}

/* Ending: an open call of backward, once a DDP was made. DDP's reducer issues its collectives in C++, and waits for them
   in a callback of the autograd engine, queued when this rank's last gradient is done. Such callbacks run in the order in
   which they are queued, and can be queued only while the engine runs. So a hook before one of the gradients queues one:
   from when that runs until the end of backward, backward waits for other ranks. */

struct ending { uint64_t at; ending_t *outer; uint16_t thread; uint8_t depth, queued, entered, marked; };

/* The call of backward that this thread works for; on a GPU that may be another thread's, NULL if it is not known. */
static ending_t *ending_here(void) {
    if (T.generation == G.generation && T.ending) return T.ending;
    return G.n_endings == 1 ? G.ending : NULL;
}
static void begin_ending(ending_t *e) {
    *e = (ending_t){.thread = T.id, .depth = T.depth, .outer = T.ending};
    T.ending = G.ending = e;
    G.n_endings++;
}
/* Records what backward waited for, before its span is left. */
static int end_ending(ending_t *e, uint64_t end, int failed) {
    T.ending = e->outer;
    if (G.ending == e) G.ending = e->outer;
    G.n_endings--;
    if (!e->at) return 0;
    T.depth = e->depth;
    put(STRUCTURE, COMMUNICATION, G.reducing, e->at, end - e->at, NAN, 0, (failed ? FAILED : 0) | (e->marked ? MARKED : 0));
    return e->marked ? mark(COMMUNICATION, ENDS, e->at, end, e->depth, NULL) : 0;
}

/* The callback of the engine. */
static PyObject *m_ending(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    ending_t *e = ending_here();
    if (!e || e->at) Py_RETURN_NONE;
    e->at = now();
    e->entered = T.ending == e && T.depth == e->depth;
    if (e->entered) enter(COMMUNICATION);                       /* Other callbacks may record collectives. */
    int marked = mark_of(e->thread, COMMUNICATION, BEGINS, e->at, e->at, e->depth, NULL);
    e->marked = marked > 0;
    if (marked < 0) return NULL;
    Py_RETURN_NONE;
}
static PyMethodDef ending_method = {"ending", m_ending, METH_NOARGS, NULL};

/* waiting() -> the number of collectives issued in each process group, by its name; and whether backward waits for DDP's
   collectives. */
static PyObject *m_waiting(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *numbers = G.numbers ? PyDict_Copy(G.numbers) : PyDict_New();
    return numbers ? Py_BuildValue("NO", numbers, G.ending && G.ending->at ? Py_True : Py_False) : NULL;
}

/* gradient(gradients): the hook before a gradient */
static PyObject *m_gradient(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    ending_t *e = G.queue ? ending_here() : NULL;
    if (!e || e->queued) Py_RETURN_NONE;
    e->queued = 1;
    PyObject *queue = Py_NewRef(G.queue), *done = PyObject_CallOneArg(queue, G.at_end);
    Py_DECREF(queue);
    Py_XDECREF(done);
    if (pass() < 0) return NULL;
    Py_RETURN_NONE;
}

/* reducer(site, queue): records what backward waits for at its end, as events of this site. queue: the autograd engine's
   queue_callback; None records no more. */
static PyObject *m_reducer(PyObject *module, PyObject *args) {
    (void)module;
    int site;
    PyObject *queue;
    if (!PyArg_ParseTuple(args, "iO", &site, &queue)) return NULL;
    if (!G.at_end && !(G.at_end = PyCFunction_New(&ending_method, NULL))) return NULL;
    G.reducing = (uint16_t)site;
    Py_XSETREF(G.queue, queue == Py_None ? NULL : Py_NewRef(queue));
    Py_RETURN_NONE;
}

/* Returns 1 if gradients are passed by name, as for some micro-batches: then there is no loss. */
static int given_gradients(PyObject *names) {
    for (Py_ssize_t i = names ? PyTuple_GET_SIZE(names) : 0; i-- > 0;)
        if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "grad_tensors")) return 1;
    return 0;
}

static PyObject *span_call(PyObject *self, PyObject *const *a, size_t nf, PyObject *names) {
    Span *s = (Span *)self;
    if (G.muted || !G.events[0]) return PyObject_Vectorcall(s->inner, a, nf, names);
    here();
    if (s->kind == FORWARD && T.models) {
        if (G.submodules) return span_submodule(s, a, nf, names);
        return PyObject_Vectorcall(s->inner, a, nf, names);
    }
    if (s->kind == ZERO_GRAD) {                                 /* Recorded with the next backward. */
        T.zeroed = 1;
        return PyObject_Vectorcall(s->inner, a, nf, names);
    }
    uint64_t begun = timed();
    Py_ssize_t n = PyVectorcall_NARGS(nf), all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    uint8_t flags = 0, depth = T.depth, raises = 0;
    int argument = s->argument, model = s->kind == FORWARD || s->kind == BACKWARD || s->kind == COMPILE;
    double value = NAN;
    uint64_t start = 0;
    uint16_t site = s->site;
    uint32_t object = argument >= 0 && argument < n ? identity(a[argument]) : 0;
    if (s->read == MODULE_CALL) {
        if (n && module_flags(a[0], &flags) < 0) return NULL;
        if (!(flags & MODEL)) {                                 /* Not a model but a loss, for example: counts as other. */
            cost(begun);
            return G.submodules ? span_submodule(s, a, nf, names) : PyObject_Vectorcall(s->inner, a, nf, names);
        }
        if (G.submodules && name_module(a, nf) < 0) return NULL;
        if (all > 1 && model_rows(a[1], &value) < 0) return NULL;
    } else if (s->read == NUMBER && all && !given_gradients(names)) {
        start = now();                                          /* A LATE event refers to this time. */
        T.hooked = 1;
        int read = number(a[argument >= 0 && argument < all ? argument : 0], s->site, start, &value, &flags);
        T.hooked = 0;
        if (read < 0) return NULL;
    }
    if (s->read >= COLLECTIVE) {
        object = 0;
        if (read_collective(s, a, n, &site, &object, &value) < 0) return NULL;
    }
    if (s->kind == BACKWARD && T.zeroed) {
        flags |= ZEROED;
        T.zeroed = 0;
    }
    cost(begun);
    T.models = (uint8_t)(T.models + model);
    uint64_t entered = enter(s->kind);
    if (!(flags & LATER)) start = entered;
    int marked = mark(s->kind, BEGINS, start, start, depth, NULL);
    ending_t ending;
    int ends = s->kind == BACKWARD && G.queue;
    if (ends) begin_ending(&ending);
    PyObject *result = marked < 0 ? NULL : PyObject_Vectorcall(s->inner, a, nf, names);
    uint64_t end = now();
    if (ends && end_ending(&ending, end, !result) < 0) Py_CLEAR(result);
    leave(s->kind, depth);
    if (model && T.models) T.models--;
    if (!result) {
        flags |= PyErr_ExceptionMatches(PyExc_StopIteration) ? ENDED : FAILED;
        raises = 1;
    } else if (s->read == RESULT) {
        T.ambiguous = 0;
        T.hooked = 1;
        int read = length(result, 0, &value);
        T.hooked = 0;
        if (read < 0) Py_CLEAR(result);
        if (T.ambiguous) flags |= AMBIGUOUS;
    } else if (s->read == IDENTITY) {
        value = identity(result);
    }
    put(STRUCTURE, s->kind, site, start, end - start, value, object, flags | (marked > 0 ? MARKED : 0));
    if (G.submodules && s->kind == FORWARD)                     /* The root module is also a MODULE span. */
        put(VALUES, 0, s->inner_site, start, end - start, NAN, object, flags & FAILED);
    if (begun) spent(now() - end);
    if (marked > 0 && mark(s->kind, ENDS, start, end, depth, NULL) < 0) Py_CLEAR(result);
    if (raises || !result) return NULL;
    RETURN(result);
}

static PyObject *span_get(PyObject *self, PyObject *object, PyObject *type) {
    (void)type;
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}
static PyObject *span_attribute(PyObject *self, PyObject *name) {
    /* Generic lookup would find the type's __module__. __class__ makes it a function to isinstance, inspect and Dynamo. */
    if (PyUnicode_CompareWithASCIIString(name, "__module__") == 0 || PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
        return PyObject_GetAttr(((Span *)self)->inner, name);
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    return PyObject_GetAttr(((Span *)self)->inner, name);
}
static PyObject *span_text(PyObject *self) { return PyObject_Repr(((Span *)self)->inner); }
static PyObject *span_reduce(PyObject *self, PyObject *unused) {       /* By name, like a function. */
    (void)unused;
    return PyObject_GetAttr(((Span *)self)->inner, G.s_qualname);
}
static PyObject *span_doc(Span *s, void *unused) {
    (void)unused;
    return PyObject_GetAttrString(s->inner, "__doc__");
}
static int span_traverse(Span *s, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(s));
    Py_VISIT(s->inner);
    Py_VISIT(s->groups);
    return 0;
}
static int span_clear(Span *s) {
    Py_CLEAR(s->inner);
    Py_CLEAR(s->groups);
    return 0;
}
static void span_free(Span *s) {
    PyTypeObject *type = Py_TYPE(s);
    PyObject_GC_UnTrack(s);
    if (s->references) PyObject_ClearWeakRefs((PyObject *)s);
    span_clear(s);
    type->tp_free(s);
    Py_DECREF(type);
}
static PyMemberDef span_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Span, call), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Span, references), READONLY, NULL},
    {"__wrapped__", T_OBJECT_EX, offsetof(Span, inner), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyGetSetDef span_getset[] = {{"__doc__", (getter)span_doc, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef span_methods[] = {{"__reduce__", span_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot span_slots[] = {
    {Py_tp_call, PyVectorcall_Call}, {Py_tp_descr_get, span_get}, {Py_tp_getattro, span_attribute},
    {Py_tp_repr, span_text}, {Py_tp_dealloc, span_free}, {Py_tp_traverse, span_traverse},
    {Py_tp_clear, span_clear}, {Py_tp_members, span_members}, {Py_tp_getset, span_getset},
    {Py_tp_methods, span_methods}, {0, NULL}};
static PyType_Spec span_spec = {
    "overseer.recorder._recorder.Span", sizeof(Span), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    span_slots};

/* span(site, kind, callable, read=0, argument=-1, inner_site=0) */
static PyObject *m_span(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"site", "kind", "callable", "read", "argument", "inner_site", NULL};
    (void)module;
    int site, kind, read = 0, argument = -1, inner_site = 0;
    PyObject *inner;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iiO|iii", names, &site, &kind, &inner, &read, &argument, &inner_site)) return NULL;
    if (!PyCallable_Check(inner)) {
        PyErr_SetString(PyExc_TypeError, "a span stands around a callable");
        return NULL;
    }
    Span *s = (Span *)G.span_type->tp_alloc(G.span_type, 0);
    if (!s) return NULL;
    s->call = span_call;
    s->inner = Py_NewRef(inner);
    s->site = (uint16_t)site;
    s->inner_site = (uint16_t)inner_site;
    s->kind = (uint8_t)kind;
    s->read = (uint8_t)read;
    s->argument = (int8_t)argument;
    return (PyObject *)s;
}

/* A loop of the script requests its next item; then receives it, or ends. */

static int asks(uint16_t site, uint32_t object) {
    here();
    uint64_t begun = timed(), start = now();
    int marked = mark(LOOP, PLAIN, start, start, T.depth, &begun);
    if (marked < 0) return -1;
    put(STRUCTURE, LOOP, site, start, 0, NAN, object, marked ? LATER : 0);
    cost(begun);
    return 0;
}
static int came(uint16_t site, uint32_t object, PyObject *item) {
    here();
    uint64_t begun = timed(), end = now();
    double value = NAN;
    int status = item ? length(item, 0, &value) : 0;
    int marked = status < 0 ? 0 : mark(LOOP, PLAIN, end, end, T.depth, &begun);
    put(STRUCTURE, LOOP, site, end, 0, value, object, CAME | (item ? 0 : ENDED) | (marked > 0 ? LATER : 0));
    cost(begun);
    return status < 0 || marked < 0 ? -1 : 0;
}

/* asks(site), came(site), came(site, item): for `async for`, whose waits are between two calls */
static PyObject *m_asks(PyObject *module, PyObject *site) {
    (void)module;
    long number = PyLong_AsLong(site);
    if (PyErr_Occurred() || (!G.muted && G.events[0] && asks((uint16_t)number, 0) < 0)) return NULL;
    Py_RETURN_NONE;
}
static PyObject *m_came(PyObject *module, PyObject *args) {
    (void)module;
    int site;
    PyObject *item = NULL;
    if (!PyArg_ParseTuple(args, "i|O", &site, &item)) return NULL;
    if (!G.muted && G.events[0] && came((uint16_t)site, 0, item) < 0) return NULL;
    RETURN(Py_NewRef(Py_None));
}

/* Loop: wraps the iterator of a `for` loop and records both at each next(), without a Python frame. */

typedef struct { PyObject_HEAD PyObject *iterator; uint32_t object; uint16_t site; } Loop;

static PyObject *loop_next(PyObject *self) {
    Loop *l = (Loop *)self;
    iternextfunc next = Py_TYPE(l->iterator)->tp_iternext;
    if (G.muted || !G.events[0]) return next(l->iterator);
    if (asks(l->site, l->object) < 0) return NULL;
    PyObject *iterator = Py_NewRef(l->iterator), *result = next(iterator);
    Py_DECREF(iterator);
    if (came(l->site, l->object, result) < 0) Py_CLEAR(result);
    RETURN(result);
}
static int loop_traverse(Loop *l, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(l));
    Py_VISIT(l->iterator);
    return 0;
}
static int loop_clear(Loop *l) {
    Py_CLEAR(l->iterator);
    return 0;
}
static void loop_free(Loop *l) {
    PyTypeObject *type = Py_TYPE(l);
    PyObject_GC_UnTrack(l);
    loop_clear(l);
    type->tp_free(l);
    Py_DECREF(type);
}
static PyType_Slot loop_slots[] = {
    {Py_tp_iter, PyObject_SelfIter}, {Py_tp_iternext, loop_next}, {Py_tp_dealloc, loop_free},
    {Py_tp_traverse, loop_traverse}, {Py_tp_clear, loop_clear}, {0, NULL}};
static PyType_Spec loop_spec = {"overseer.recorder._recorder.Loop", sizeof(Loop), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, loop_slots};

/* Iterating over numbers and containers involves no waiting, and loaders record their waits themselves. */
static int never_waits(PyObject *iterator) {
    PyTypeObject *type = Py_TYPE(iterator);
    if (type == &PyRangeIter_Type || type == &PyListIter_Type || type == &PyTupleIter_Type || type == &PyDictIterItem_Type ||
        type == &PyDictIterKey_Type || type == &PyDictIterValue_Type)
        return 1;
    PyObject *next = PyObject_GetAttr((PyObject *)type, G.s_next);
    int recorded = next && Py_IS_TYPE(next, G.span_type);
    Py_XDECREF(next);
    PyErr_Clear();
    return recorded;
}

/* loop(site, iterable) */
static PyObject *m_loop(PyObject *module, PyObject *args) {
    (void)module;
    int site;
    PyObject *iterable;
    if (!PyArg_ParseTuple(args, "iO", &site, &iterable)) return NULL;
    PyObject *iterator = PyObject_GetIter(iterable);
    if (!iterator || never_waits(iterator)) return iterator;
    Loop *l = (Loop *)G.loop_type->tp_alloc(G.loop_type, 0);
    if (!l) {
        Py_DECREF(iterator);
        return NULL;
    }
    l->iterator = iterator;
    l->object = identity(iterator);
    l->site = (uint16_t)site;
    return (PyObject *)l;
}

/* The rings and the header. */

/* A child must not write to memory shared with its parent; another thread may have held the lock. */
static void forked(void) {
    G.muted = 1;
    numbering = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void *pages(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void closed(void) {
    pthread_mutex_lock(&numbering);
    for (int ring = 0; ring < 2; ring++) {
        if (G.events[ring]) munmap(G.events[ring], (G.mask[ring] + 1) * sizeof(event_t));
        G.events[ring] = NULL;
    }
    if (G.header != &no_header) munmap(G.header, sizeof(header_t));
    G.header = &no_header;
    G.generation++;
    pthread_mutex_unlock(&numbering);
    G.armed_kinds = G.armed_left = G.marked_kinds = 0;
    G.due = 0;
    Py_CLEAR(G.armed);
    Py_CLEAR(G.marker);
    Py_CLEAR(G.queue);
    Py_CLEAR(G.group);
    Py_CLEAR(G.numbers);
    Py_CLEAR(G.size_of);
    Py_CLEAR(G.inherited);
    Py_CLEAR(G.full);
    Py_CLEAR(G.unread[0]);
    Py_CLEAR(G.unread[1]);
}

/* open(structure, values, started, epoch): creates the rings; their sizes are powers of two */
static PyObject *m_open(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long n[2], started = 0, epoch = 0;
    if (!PyArg_ParseTuple(args, "KK|KK", &n[0], &n[1], &started, &epoch)) return NULL;
    for (int ring = 0; ring < 2; ring++)
        if (!n[ring] || n[ring] & (n[ring] - 1)) {
            PyErr_SetString(PyExc_ValueError, "a ring has room for a power of two events");
            return NULL;
        }
    closed();
    header_t *header = pages(sizeof(header_t));
    event_t *events[2] = {pages(n[0] * sizeof(event_t)), pages(n[1] * sizeof(event_t))};
    if (!header || !events[0] || !events[1]) {
        if (header) munmap(header, sizeof(header_t));
        for (int ring = 0; ring < 2; ring++)
            if (events[ring]) munmap(events[ring], n[ring] * sizeof(event_t));
        return PyErr_NoMemory();
    }
    memcpy(header->magic, "voir rec", 8);
    header->format = FORMAT;
    header->pid = (uint32_t)getpid();
    header->started = started;
    header->monotonic = now();
    header->epoch = epoch;
    pthread_mutex_lock(&numbering);
    memset(taken, 0, sizeof taken);
    memset(shown, 0, sizeof shown);
    G.header = header;
    for (int ring = 0; ring < 2; ring++) {
        G.events[ring] = events[ring];
        G.mask[ring] = n[ring] - 1;
    }
    G.generation++;
    G.drained = 0;
    pthread_mutex_unlock(&numbering);
    G.muted = 0;
    here();
    Py_RETURN_NONE;
}
static PyObject *m_close(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    closed();
    Py_RETURN_NONE;
}

/* publish(path, directory): moves the header to a file that other processes can read */
static PyObject *m_publish(PyObject *module, PyObject *args) {
    (void)module;
    const char *path, *directory;
    if (!PyArg_ParseTuple(args, "ss", &path, &directory)) return NULL;
    if (G.header == &no_header) {
        PyErr_SetString(PyExc_ValueError, "the recorder is not open");
        return NULL;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600), error = 0;
    if (fd < 0) return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
#if defined(__APPLE__)
    error = ftruncate(fd, sizeof(header_t)) ? errno : 0;
#else
    error = posix_fallocate(fd, 0, sizeof(header_t));  /* On a full disk, writing to a hole raises SIGBUS. */
#endif
    header_t *header = error ? MAP_FAILED : mmap(NULL, sizeof(header_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (header == MAP_FAILED && !error) error = errno;
    close(fd);
    if (error) {
        unlink(path);
        errno = error;
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
    }
    pthread_mutex_lock(&numbering);
    memcpy(header, G.header, sizeof(header_t));
    strncpy(header->directory, directory, sizeof(header->directory) - 1);
    munmap(G.header, sizeof(header_t));
    G.header = header;
    pthread_mutex_unlock(&numbering);
    Py_RETURN_NONE;
}

/* drain(ring, position) -> (events, next position, number of events lost before the first) */
static PyObject *m_drain(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long from, lost = 0;
    int ring;
    if (!PyArg_ParseTuple(args, "iK", &ring, &from)) return NULL;
    if (ring < 0 || ring > VALUES || !G.events[ring]) {
        PyErr_SetString(PyExc_ValueError, "there is no such ring: the recorder is not open");
        return NULL;
    }
    uint64_t head = __atomic_load_n(&G.header->head[ring], __ATOMIC_ACQUIRE), room = G.mask[ring] + 1;
    if (from > head) from = head;
    if (head - from > room) {
        lost = head - from - room;
        from += lost;
        G.header->lost[ring] += lost;
    }
    uint64_t n = head - from, at = from & G.mask[ring], first = n < room - at ? n : room - at;
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * sizeof(event_t)));
    if (!made) return NULL;
    char *out = PyBytes_AS_STRING(made);
    memcpy(out, G.events[ring] + at, first * sizeof(event_t));
    memcpy(out + first * sizeof(event_t), G.events[ring], (n - first) * sizeof(event_t));
    if (ring == STRUCTURE) G.drained = head;
    return Py_BuildValue("NKK", made, (unsigned long long)head, lost);
}

static PyObject *m_header(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBytes_FromStringAndSize((const char *)G.header, sizeof(header_t));
}

/* control(word, value=None) -> the word's previous value */
static PyObject *m_control(PyObject *module, PyObject *args) {
    (void)module;
    int word;
    PyObject *value = Py_None;
    if (!PyArg_ParseTuple(args, "i|O", &word, &value)) return NULL;
    if (word < 0 || word >= WORDS) {
        PyErr_Format(PyExc_ValueError, "there are %d control words", WORDS);
        return NULL;
    }
    uint64_t before = __atomic_load_n(&G.header->control[word], __ATOMIC_ACQUIRE);
    if (value != Py_None) {
        uint64_t set = PyLong_AsUnsignedLongLong(value);
        if (PyErr_Occurred()) return NULL;
        __atomic_store_n(&G.header->control[word], set, __ATOMIC_RELEASE);
    }
    return PyLong_FromUnsignedLongLong(before);
}

/* put(ring, kind, site, start, duration, value, object, flags): records an event with these fields */
static PyObject *m_put(PyObject *module, PyObject *args) {
    (void)module;
    int ring, kind, site, flags;
    unsigned long long start, duration;
    unsigned int object;
    double value;
    if (!PyArg_ParseTuple(args, "iiiKKdIi", &ring, &kind, &site, &start, &duration, &value, &object, &flags)) return NULL;
    if (ring < 0 || ring > VALUES) {
        PyErr_SetString(PyExc_ValueError, "there are rings 0 and 1");
        return NULL;
    }
    if (!G.muted) {
        here();
        put(ring, kind, (uint16_t)site, start, duration, value, object, (uint8_t)flags);
    }
    Py_RETURN_NONE;
}

/* note(kind, site, start, text): records text in further slots after the event */
static PyObject *m_note(PyObject *module, PyObject *args) {
    (void)module;
    int kind, site;
    unsigned long long start;
    Py_buffer text;
    if (!PyArg_ParseTuple(args, "iiKy*", &kind, &site, &start, &text)) return NULL;
    if (!G.muted && G.events[VALUES]) {
        here();
        put(VALUES, kind, (uint16_t)site, start ? start : now(), 0, NAN, (uint32_t)text.len, 0);
        for (Py_ssize_t at = 0; at < text.len; at += PIECE) {
            char slot[sizeof(event_t)] = {0};
            Py_ssize_t n = text.len - at < PIECE ? text.len - at : PIECE, head = n < 20 ? n : 20;
            const char *from = (const char *)text.buf + at;
            memcpy(slot, from, (size_t)head);
            slot[20] = slot[21] = (char)0xFF;
            memcpy(slot + 22, from + head, (size_t)(n - head));
            memcpy(&G.events[VALUES][G.header->head[VALUES] & G.mask[VALUES]], slot, sizeof slot);
            __atomic_store_n(&G.header->head[VALUES], G.header->head[VALUES] + 1, __ATOMIC_RELEASE);
        }
    }
    PyBuffer_Release(&text);
    Py_RETURN_NONE;
}

/* arm(kinds, n, callback): calls it after n more events of these kinds (a bit mask); returns the number that the
   previous alarm still waited for */
static PyObject *m_arm(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long kinds, n;
    PyObject *callback;
    if (!PyArg_ParseTuple(args, "KKO", &kinds, &n, &callback)) return NULL;
    Py_XSETREF(G.armed, callback == Py_None ? NULL : Py_NewRef(callback));
    unsigned long long left = G.armed_left;
    G.armed_kinds = n ? kinds : 0;
    G.armed_left = n;
    G.due &= ~REACHED;
    return PyLong_FromUnsignedLongLong(left);
}

/* when_full(callback): calls it, on the recording thread, once three quarters of the structure ring are unread */
static PyObject *m_when_full(PyObject *module, PyObject *callback) {
    (void)module;
    Py_XSETREF(G.full, callback == Py_None ? NULL : Py_NewRef(callback));
    Py_RETURN_NONE;
}

/* marker(kinds, callback): calls it at the boundaries of these kinds (a bit mask), in their thread, with the thread's
   number, the event's start, the time, the edge (BEGINS or ENDS of a span, PLAIN for a mark) and the depth. It returns
   True if device times will follow; otherwise it is not called for the end of a span. */
static PyObject *m_marker(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long kinds;
    PyObject *callback;
    if (!PyArg_ParseTuple(args, "KO", &kinds, &callback)) return NULL;
    G.marked_kinds = 0;
    Py_XSETREF(G.marker, callback == Py_None ? NULL : Py_NewRef(callback));
    if (G.marker) G.marked_kinds = kinds;
    Py_RETURN_NONE;
}

static void set_callable(PyObject **place, PyObject *value) { Py_XSETREF(*place, value == Py_None ? NULL : Py_NewRef(value)); }

static void *descriptor(PyTypeObject *type, PyObject *name, PyTypeObject *kind) {
    PyObject *found = _PyType_Lookup(type, name);
    return found && Py_IS_TYPE(found, kind) ? found : NULL;
}

static void know_torch(PyTypeObject *type) {
    PyObject *names[] = {G.s_ndim, G.s_shape, G.s_is_cpu, G.s_dtype};
    getter *places[] = {&G.torch.ndim, &G.torch.shape, &G.torch.is_cpu, &G.torch.dtype};
    memset(&G.torch, 0, sizeof G.torch);
    for (int i = 0; i < 4; i++) {
        PyGetSetDescrObject *found = descriptor(type, names[i], &PyGetSetDescr_Type);
        *places[i] = found ? found->d_getset->get : NULL;
        G.torch.closures[i] = found ? found->d_getset->closure : NULL;
    }
    PyMethodDescrObject *method = descriptor(type, G.s_data_ptr, &PyMethodDescr_Type);
    if (method && method->d_method->ml_flags == METH_NOARGS) G.torch.data_ptr = method->d_method->ml_meth;
    PyTypeObject *base = type->tp_base;                         /* Tensor.__len__ itself is a Python function. */
    if (G.torch.ndim && base && base->tp_as_mapping) G.torch.length = base->tp_as_mapping->mp_length;
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");   /* Since torch 2.10. */
    const exchange_t *table = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
    if (table && table->major == 1) G.torch.describe = table->describe;
    Py_XDECREF(capsule);
    PyErr_Clear();
}

/* tensors(types, dtypes, grad_enabled, hold, tracing=None, modes=None, without_modes=None): registers exact types and
   how to read them. types: {type: SHAPE, TORCH or HELD}; dtypes: {dtype: struct code}; the last three are torch's. */
static PyObject *m_tensors(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *types, *dtypes, *grad, *hold, *key, *value, *tracing = Py_None, *modes = Py_None, *without = Py_None;
    Py_ssize_t at = 0;
    if (!PyArg_ParseTuple(args, "O!O!OO|OOO", &PyDict_Type, &types, &PyDict_Type, &dtypes, &grad, &hold, &tracing, &modes, &without))
        return NULL;
    G.n_types = G.n_dtypes = 0;                                 /* Types and dtypes are never released. */
    while (PyDict_Next(types, &at, &key, &value) && G.n_types < TYPES)
        if (PyType_Check(key)) {
            long how = PyLong_AsLong(value);
            if (how == TORCH && (!G.n_types || G.types[0].how != TORCH)) know_torch((PyTypeObject *)key);
            G.types[G.n_types++] = (tensor_type){(PyTypeObject *)Py_NewRef(key), how};
        }
    if (PyErr_Occurred()) return NULL;
    at = 0;
    while (PyDict_Next(dtypes, &at, &key, &value) && G.n_dtypes < DTYPES) {
        const char *code = PyUnicode_AsUTF8(value);
        if (!code) return NULL;
        G.dtypes[G.n_dtypes++] = (dtype_code){Py_NewRef(key), code[0]};
    }
    set_callable(&G.grad_enabled, grad);
    set_callable(&G.hold, hold);
    set_callable(&G.tracing, tracing);
    set_callable(&G.modes, modes);
    set_callable(&G.without_modes, without);
    Py_RETURN_NONE;
}

/* tasks(running_loop, current_task): sets asyncio's functions, or None */
static PyObject *m_tasks(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *running, *current;
    if (!PyArg_ParseTuple(args, "OO", &running, &current)) return NULL;
    set_callable(&G.running_loop, running);
    set_callable(&G.current_task, current);
    Py_RETURN_NONE;
}

/* sizes(size_of): sets a function from a given batch to its items, as a float; None to read them from the batch */
static PyObject *m_sizes(PyObject *module, PyObject *size_of) {
    (void)module;
    set_callable(&G.size_of, size_of);
    Py_RETURN_NONE;
}
/* unread() -> names of the first type of a given loss, and of a given batch, that could not be read */
static PyObject *m_unread(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    const char *names[2];
    for (int i = 0; i < 2; i++) names[i] = G.unread[i] ? G.unread[i]->tp_name : "";
    return Py_BuildValue("ss", names[0], names[1]);
}
/* inherit(variable): sets the context variable with keys that events inherit, or None */
static PyObject *m_inherit(PyObject *module, PyObject *variable) {
    (void)module;
    set_callable(&G.inherited, variable);
    Py_RETURN_NONE;
}

/* method(callable): makes it bind like a function; Dynamo would call a Span in a class without self */
static PyObject *m_method(PyObject *module, PyObject *callable) {
    (void)module;
    return PyInstanceMethod_New(callable);
}

/* submodules(on, name=None): records modules within root modules; name is called with each new one */
static PyObject *m_submodules(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *name = Py_None;
    int on;
    if (!PyArg_ParseTuple(args, "p|O", &on, &name)) return NULL;
    G.submodules = on;
    if (!G.name || name == Py_None) memset(G.named, 0, sizeof G.named);
    set_callable(&G.name, name);
    Py_RETURN_NONE;
}
/* forget(identity): forgets a named module that no longer exists */
static PyObject *m_forget(PyObject *module, PyObject *number) {
    (void)module;
    uint32_t id = (uint32_t)PyLong_AsUnsignedLongMask(number), *place = id ? named(id, id) : NULL;
    if (PyErr_Occurred()) return NULL;
    if (place) *place = 0;
    Py_RETURN_NONE;
}
static PyObject *m_now(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyLong_FromUnsignedLongLong(now());
}
static PyObject *m_identity(PyObject *module, PyObject *o) {
    (void)module;
    return PyLong_FromUnsignedLong(identity(o));
}
static PyObject *m_length(PyObject *module, PyObject *o) {
    (void)module;
    double value;
    return length(o, 0, &value) < 0 ? NULL : PyFloat_FromDouble(value);
}
static PyObject *m_number(PyObject *module, PyObject *o) {
    (void)module;
    double value;
    uint8_t flags = 0;
    return number(o, 0, 0, &value, &flags) < 0 ? NULL : PyFloat_FromDouble(value);
}

static PyMethodDef methods[] = {
    {"open", m_open, METH_VARARGS, NULL},
    {"close", m_close, METH_NOARGS, NULL},
    {"publish", m_publish, METH_VARARGS, NULL},
    {"drain", m_drain, METH_VARARGS, NULL},
    {"header", m_header, METH_NOARGS, NULL},
    {"control", m_control, METH_VARARGS, NULL},
    {"put", m_put, METH_VARARGS, NULL},
    {"note", m_note, METH_VARARGS, NULL},
    {"arm", m_arm, METH_VARARGS, NULL},
    {"marker", m_marker, METH_VARARGS, NULL},
    {"reducer", m_reducer, METH_VARARGS, NULL},
    {"gradient", m_gradient, METH_O, NULL},
    {"groups", m_groups, METH_O, NULL},
    {"waiting", m_waiting, METH_NOARGS, NULL},
    {"tensors", m_tensors, METH_VARARGS, NULL},
    {"tasks", m_tasks, METH_VARARGS, NULL},
    {"sizes", m_sizes, METH_O, NULL},
    {"inherit", m_inherit, METH_O, NULL},
    {"unread", m_unread, METH_NOARGS, NULL},
    {"when_full", m_when_full, METH_O, NULL},
    {"method", m_method, METH_O, NULL},
    {"submodules", m_submodules, METH_VARARGS, NULL},
    {"forget", m_forget, METH_O, NULL},
    {"now", m_now, METH_NOARGS, NULL},
    {"identity", m_identity, METH_O, NULL},
    {"length", m_length, METH_O, NULL},
    {"number", m_number, METH_O, NULL},
    {"span", (PyCFunction)(void (*)(void))m_span, METH_VARARGS | METH_KEYWORDS, NULL},
    {"loop", m_loop, METH_VARARGS, NULL},
    {"asks", m_asks, METH_O, NULL},
    {"came", m_came, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

static int intern(void) {
    const struct { PyObject **place; const char *text; } names[] = {
        {&G.s_ndim, "ndim"}, {&G.s_shape, "shape"}, {&G.s_dtype, "dtype"}, {&G.s_is_cpu, "is_cpu"}, {&G.s_data_ptr, "data_ptr"},
        {&G.s_data, "data"}, {&G.s_training, "training"}, {&G.s_parameters, "_parameters"}, {&G.s_modules, "_modules"},
        {&G.s_stated[0], "num_graphs"}, {&G.s_stated[1], "batch_size"}, {&G.s_stated[2], "num_tokens"},
        {&G.s_task, "task"}, {&G.s_enter, "__enter__"}, {&G.s_exit, "__exit__"}, {&G.s_next, "__next__"}, {&G.s_wrap, "$wrap"}, {&G.s_name, "name"}, {&G.s_step, "step"}, {&G.s_id, "id"}, {&G.s_begin, "begin"},
        {&G.s_end, "end"}, {&G.s_qualname, "__qualname__"}, {&G.s_group_name, "group_name"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!*names[i].place && !(*names[i].place = PyUnicode_InternFromString(names[i].text))) return -1;
    return 0;
}

/* Globals are initialized once: a script may delete the module from sys.modules and import it again. */
static int execute(PyObject *module) {
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "the recorder serves the main interpreter only");
        return -1;
    }
    if (!G.site_type) {
        G.header = &no_header;
        if (intern() < 0) return -1;
        if (pthread_key_create(&at_exit, thread_ends)) {
            PyErr_SetString(PyExc_ImportError, "the system has no thread-local storage left");
            return -1;
        }
        pthread_atfork(NULL, NULL, forked);
        PyTypeObject **places[] = {&G.span_type, &G.loop_type, &G.site_type};
        PyType_Spec *specs[] = {&span_spec, &loop_spec, &site_spec};
        for (int i = 0; i < 3; i++)
            if (!*places[i] && !(*places[i] = (PyTypeObject *)PyType_FromSpec(specs[i]))) return -1;
    }
    if (PyModule_AddIntConstant(module, "FORMAT", FORMAT) < 0) return -1;
    if (PyModule_AddStringConstant(module, "NAME", "C") < 0) return -1;
    return PyModule_AddObjectRef(module, "Site", (PyObject *)G.site_type);
}
static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_recorder", NULL, 0, methods, slots, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__recorder(void) { return PyModuleDef_Init(&definition); }
