/* Reads times, items and losses of steps with the same sequence of events as the step before.

   The fold (overseer/model/fold.py) defines steps. It counts one and passes its events; the following steps that differ
   only in times and values are read here. The fold's step is read too, and returned first, so that the caller can
   compare the results. Anything irregular ends the group, and the fold continues from there. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef Py_GIL_DISABLED
#error "free-threaded builds have no mypyc either: the fold counts each step by itself"
#endif

#define LEAST_NS 10000000 /* Longer times may be pauses, which the fold decides (R19). */
#define LEFT 2            /* Last steps left to the fold, which holds steps back. */
#define DEEP 16

/* Copies of enums in sites.py; a test compares each tagged enum, and part_of. */
enum kind { LOADING = 1, FORWARD = 3, BACKWARD = 4, OPTIMIZER = 5, STEP = 11, PAIR = 12, LOOP = 14, COMMUNICATION = 17, LOSS = 18, PAIR_BEGINS = 28 };
enum flag { TRAINING = 1, ZEROED = 1, GRAD = 2, ENDED = 8, FAILED = 16, IN_OPTIMIZER = 32, LATER = 64, CAME = 128, MARKED = 128 };
enum { LEARNING = TRAINING | GRAD, UNUSUAL = ENDED | FAILED | IN_OPTIMIZER | LATER };
/* Parts of a step, as in model/events.py, and the part of a span, by its kind. */
enum { LOADS, FORWARDS, BACKWARDS, OPTIMIZES, COMMUNICATES, OTHER, BETWEEN, PARTS };
static const int part_of[] = {OTHER, LOADS, LOADS, FORWARDS, BACKWARDS, OPTIMIZES};
/* Sources of a step's items, in order of precedence. */
enum { MARK, BEGUN, CLOSED, BATCH, ROWS, SIZES };

typedef struct {
    uint64_t start;
    double value;
    uint32_t object;
    uint16_t site, thread;
    uint32_t low;
    uint16_t high;
    uint8_t depth, flags;
} event_t;
/* A step, in the layout that model/alike.py unpacks. ns: sum of its parts; given: its given loss. */
typedef struct {
    int64_t start, end, parts[PARTS], ns;
    double items, loss, given;
} step_t;
/* A step being read. rest: part to which time outside spans belongs; base: the same while no loop waits. */
typedef struct {
    step_t step;
    double sizes[SIZES];
    int rest, base;
} open_t;

/* Returns 1 if events differ from earlier ones only in times, values, and objects that identify values. */
static int equal(const event_t *a, const event_t *b, Py_ssize_t n, const uint8_t *kinds, Py_ssize_t sites) {
    for (const event_t *end = a + n; a < end; a++, b++) {
        if (a->site != b->site || a->thread != b->thread || a->depth != b->depth || a->flags != b->flags) return 0;
        if (a->site >= sites || !isnan(a->value) != !isnan(b->value)) return 0;
        int kind = kinds[a->site], named = kind == LOADING || kind == FORWARD || kind == OPTIMIZER;
        if (named && a->object != b->object) return 0;
    }
    return 1;
}

static int64_t until(open_t *o, int64_t at) {
    int64_t gap = at - o->step.end;
    if (gap <= 0) return 0;
    o->step.parts[o->rest] += gap;
    o->step.end = at;
    return o->rest == LOADS ? gap : 0;
}

/* Reads a step of n events, starting at `o->step.end`; returns 1 if it is regular. Spans are timed as in Fold.feed(),
   marks as in Lane.rare(). */
static int read_step(open_t *o, const event_t *events, Py_ssize_t n, const uint8_t *kinds) {
    int64_t inside[DEEP + 2] = {0}, start = o->step.end, waited = 0, at = 0;
    int rest = o->rest, base = o->base, backwards = 0, optimizers = 0;
    double loss = 0.0; /* Of the current iteration. */
    step_t *s = &o->step;
    *s = (step_t){.start = start, .end = start, .given = NAN};
    for (int i = 0; i < SIZES; i++) o->sizes[i] = NAN;
    for (Py_ssize_t i = 0; i < n; i++) {
        const event_t *e = &events[i];
        int kind = kinds[e->site], size = SIZES, last = i == n - 1, waits = kind == COMMUNICATION;
        int span = kind <= OPTIMIZER || waits, unusual = waits ? UNUSUAL & ~IN_OPTIMIZER : UNUSUAL;
        int64_t ns = (int64_t)(e->low | (uint64_t)e->high << 32), begin = (int64_t)e->start;
        if (e->flags & unusual || (e->flags & MARKED && kind != LOOP) || e->depth >= DEEP) return 0;
        if (e->depth && kind != FORWARD && kind != BACKWARD && !waits) return 0;
        at = span || kind == PAIR ? begin + ns : begin;
        switch (kind) {
        case LOADING: /* An iteration begins. */
            if (!e->object) return 0;
            s->loss += loss;
            loss = 0.0;
            waited += until(o, begin);
            size = BATCH;
            break;
        case FORWARD:
            if ((e->flags & LEARNING) != LEARNING) return 0;
            size = ROWS;
            break;
        case BACKWARD:
            if (!isfinite(e->value) || o->rest != OTHER || (backwards++ && e->flags & ZEROED)) return 0;
            loss += e->value;
            break;
        case OPTIMIZER:
            if (optimizers++) return 0;
            s->loss += loss;
            loss = 0.0;
            break;
        case LOOP:
            waited += until(o, begin);
            if (!(e->flags & CAME)) {
                o->rest = LOADS;
                waited = 0;
            } else if (o->rest == LOADS) {
                o->rest = o->base;
                if (!isnan(e->value)) break;
                s->parts[LOADS] -= waited;
                s->parts[o->rest] += waited;
            }
            break;
        case STEP:
            if (!last) return 0;
            until(o, begin);
            size = MARK;
            break;
        case PAIR_BEGINS:
            until(o, begin);
            o->rest = o->base = OTHER;
            size = BEGUN;
            break;
        case PAIR:
            until(o, at);
            if (o->rest == OTHER) o->rest = BETWEEN;
            o->base = BETWEEN;
            size = last ? MARK : CLOSED;
            break;
        case LOSS:
            if (!isfinite(e->value) || !isnan(s->given)) return 0;
            s->given = e->value;
            break;
        case COMMUNICATION:
            break;
        default:
            return 0;
        }
        if (size != SIZES) o->sizes[size] = isnan(o->sizes[size]) ? e->value : o->sizes[size] + e->value;
        if (!span) continue;
        int64_t within = inside[e->depth + 1];
        s->parts[waits ? COMMUNICATES : part_of[kind]] += ns > within ? ns - within : 0;
        inside[e->depth + 1] = 0;
        if (e->depth) {
            inside[e->depth] += ns;
            continue;
        }
        if (begin < start) return 0;
        waited += until(o, begin);
        s->end = at;
    }
    s->loss += loss;
    for (int i = 0; i < DEEP + 2; i++)
        if (inside[i]) return 0;
    return s->end == at && at > start && o->rest == rest && o->base == base;
}

/* Sets a step's items, and adds the time between its pairs to loading or other; returns the source of the items. */
static int resolve(open_t *o, int loads) {
    int size = 0;
    while (size < SIZES && isnan(o->sizes[size])) size++;
    o->step.items = size < SIZES ? o->sizes[size] : NAN;
    o->step.parts[loads ? LOADS : OTHER] += o->step.parts[BETWEEN];
    for (int i = 0; i < BETWEEN; i++) o->step.ns += o->step.parts[i];
    return size;
}

/* Returns 1 if a step may be counted together with `like`, which the fold has counted. */
static int countable(const step_t *s, const step_t *like, int sized, int loads) {
    int64_t between = s->parts[BETWEEN];
    if (sized && !(s->items >= 0 && s->items < 1e12 && s->items == floor(s->items))) return 0; /* Sums are exact. */
    return s->ns > 0 && s->parts[OTHER] <= LEAST_NS && (!loads || between <= LEAST_NS) && isfinite(s->loss) &&
           !between == !like->parts[BETWEEN];
}

PyDoc_STRVAR(alike_doc,
             "alike(events, at, behind, kinds, rest, base, loads, start)\n--\n\n"
             "Read steps like the one whose events are between the offsets `at` and `behind`: that step, the following\n"
             "ones except the last two, and a row of sums, with the minimum of losses; None if there are no such steps.\n\n"
             "kinds: kind by site, 0 for irregular ones. rest, base: part of time outside spans, now and while no loop\n"
             "waits. loads: time between pairs is loading. start: start of the first step.");

static PyObject *alike(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer data, kinds;
    Py_ssize_t from, behind;
    int loads;
    long long start;
    open_t o;
    memset(&o, 0, sizeof o);
    if (!PyArg_ParseTuple(args, "y*nny*iipL", &data, &from, &behind, &kinds, &o.rest, &o.base, &loads, &start)) return NULL;
    PyObject *made = NULL;
    const event_t *like = (const event_t *)data.buf + from / 32, *event = (const event_t *)data.buf + behind / 32;
    const uint8_t *kind = kinds.buf;
    Py_ssize_t n = event - like, most = n > 0 ? (data.len - behind) / 32 / n : 0, count = 0;
    o.step.end = start;
    if (most <= LEFT || o.rest == LOADS || !equal(like, event, n, kind, kinds.len) || !read_step(&o, like, n, kind)) goto done;
    int sized = resolve(&o, loads) < SIZES;
    if (!(made = PyBytes_FromStringAndSize(NULL, (most + 2) * (Py_ssize_t)sizeof(step_t)))) goto done;
    step_t *steps = (step_t *)PyBytes_AS_STRING(made);
    for (steps[0] = o.step; count < most; event += n) {
        if (!equal(like, event, n, kind, kinds.len) || !read_step(&o, event, n, kind)) break;
        resolve(&o, loads);
        if (!countable(&o.step, &steps[0], sized, loads)) break;
        steps[++count] = o.step;
    }
    count -= LEFT;
    if (count <= 0) {
        Py_CLEAR(made);
        goto done;
    }
    step_t sums = steps[1];
    for (Py_ssize_t i = 2; i <= count; i++) {
        for (int p = 0; p < PARTS; p++) sums.parts[p] += steps[i].parts[p];
        sums.end = steps[i].end;
        sums.ns += steps[i].ns;
        sums.items += steps[i].items;
        sums.loss = fmin(sums.loss, steps[i].loss);
        sums.given = fmin(sums.given, steps[i].given);
    }
    steps[count + 1] = sums;
    _PyBytes_Resize(&made, (count + 2) * (Py_ssize_t)sizeof(step_t));
done:
    PyBuffer_Release(&data);
    PyBuffer_Release(&kinds);
    if (made || PyErr_Occurred()) return made;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"alike", alike, METH_VARARGS, alike_doc}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_alike", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__alike(void) { return PyModule_Create(&definition); }
