/* Arrays that Python hands over: contiguous, aligned, of one type, and with contents that are safe.
 *
 * The loops make addresses from what arrays hold, so everything that becomes an address is looked
 * at first. The checks need no GIL: what is wrong is written into a `fault`, which `release` raises.
 * Nobody else may write to the arrays meanwhile, as with numpy's own functions.
 */
#ifndef EVAL_TOOLKIT_ARRAYS_H
#define EVAL_TOOLKIT_ARRAYS_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define U8 'u', 1 /* kind and bytes of an entry */
#define U16 'u', 2
#define U32 'u', 4
#define U64 'u', 8
#define I32 'i', 4
#define I64 'i', 8
#define F64 'f', 8

typedef struct {
    const char *name;
    char kind, size;
    char written, optional;
    Py_buffer view; /* of an optional array that is None: empty, its `buf` is NULL */
    int64_t n;      /* entries */
} array;

typedef char fault[192]; /* empty: nothing is wrong */

static int refuse(char *wrong, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(wrong, sizeof(fault), format, values);
    va_end(values);
    return 0;
}

static int wrong_size(char *wrong, const array *a) {
    return refuse(wrong, "kernel: buffer `%s` has the wrong size", a->name);
}

static int wrong_entry(char *wrong, const array *a, int64_t at, int64_t value, const char *rule) {
    return refuse(wrong, "kernel: `%s[%lld]` is %lld; %s", a->name, (long long)at,
                  (long long)value, rule);
}

static int is_of_type(const array *a) {
    const char *format = a->view.format ? a->view.format : "B";
    const char *known = a->kind == 'f' ? "d" : a->kind == 'i' ? "bhilqn" : "?BHILQN";
    return a->view.itemsize == a->size && *format && !format[1] && strchr(known, *format) &&
           (uintptr_t)a->view.buf % (uintptr_t)a->size == 0;
}

/* Converter of PyArg_ParseTuple ("O&"): called again with NULL if a later argument is refused. */
static int array_from(PyObject *object, void *into) {
    array *a = into;
    if (!object || (object == Py_None && a->optional)) {
        PyBuffer_Release(&a->view);
        return Py_CLEANUP_SUPPORTED;
    }
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (a->written ? PyBUF_WRITABLE : 0);
    int held = !PyObject_GetBuffer(object, &a->view, flags);
    if (held && is_of_type(a)) {
        a->n = a->view.len / a->size;
        return Py_CLEANUP_SUPPORTED;
    }
    if (held) PyBuffer_Release(&a->view);
    if (held || !PyErr_ExceptionMatches(PyExc_MemoryError))
        PyErr_Format(PyExc_ValueError,
                     "kernel: `%s` must be a contiguous%s array of %d-byte %s", a->name,
                     a->written ? ", writable" : "", (int)a->size,
                     a->kind == 'f'   ? "floating-point numbers"
                     : a->kind == 'i' ? "signed integers"
                                      : "unsigned integers");
    return 0;
}

/* Give all arrays back (the list ends with NULL), and raise what is wrong. */
static int release(array *const *all, const char *wrong) {
    for (; *all; all++) PyBuffer_Release(&(*all)->view);
    if (*wrong) PyErr_SetString(PyExc_ValueError, wrong);
    return !*wrong;
}

/* No array that is written to shares memory with another: what was checked stays as it is. */
static int lie_apart(char *wrong, array *const *all) {
    for (array *const *a = all; *a; a++)
        for (array *const *b = all; (*a)->written && *b; b++) {
            const char *x = (*a)->view.buf, *y = (*b)->view.buf;
            if (a != b && x < y + (*b)->view.len && y < x + (*a)->view.len)
                return refuse(wrong, "kernel: `%s` and `%s` share memory", (*a)->name, (*b)->name);
        }
    return 1;
}

/* Exactly so many entries. */
static int holds(char *wrong, const array *a, int64_t n) {
    return a->n == n || wrong_size(wrong, a);
}

/* Exactly x times y entries, a product that may be too large to be reckoned. */
static int holds_product(char *wrong, const array *a, int64_t x, int64_t y) {
    return (y ? a->n % y == 0 && a->n / y == x : a->n == 0) || wrong_size(wrong, a);
}

/* Entries [begin, end) of 32 bits lie between low and high. */
static inline int lie_within(char *wrong, const array *a, int64_t begin, int64_t end, int64_t low,
                             int64_t high) {
    const int32_t *entry = a->view.buf;
    uint32_t least = (uint32_t)low, span = (uint32_t)(high - low), outside = 0;
    for (int64_t i = begin; i < end; i++) outside |= (uint32_t)entry[i] - least > span;
    for (int64_t i = begin; outside && i < end; i++)
        if (entry[i] < low || entry[i] > high) {
            char rule[64];
            snprintf(rule, sizeof rule, "it must be from %lld to %lld", (long long)low,
                     (long long)high);
            return wrong_entry(wrong, a, i, entry[i], rule);
        }
    return 1;
}

/* Entries of 64 bits never fall, begin at `first` or above and end at `last`. */
static int ascend(char *wrong, const array *a, int64_t first, int64_t last) {
    const int64_t *entry = a->view.buf;
    if (a->n < 1) return wrong_size(wrong, a);
    if (entry[0] < first) return wrong_entry(wrong, a, 0, entry[0], "it is too small");
    for (int64_t i = 1; i < a->n; i++)
        if (entry[i] < entry[i - 1])
            return wrong_entry(wrong, a, i, entry[i], "it is smaller than the entry before it");
    if (entry[a->n - 1] != last) return wrong_size(wrong, a);
    return 1;
}

/* Bytes that are 0 or 1. */
static int are_flags(char *wrong, const array *a) {
    const uint8_t *entry = a->view.buf;
    uint8_t any = 0;
    for (int64_t i = 0; i < a->n; i++) any |= entry[i];
    for (int64_t i = 0; any > 1 && i < a->n; i++)
        if (entry[i] > 1) return wrong_entry(wrong, a, i, entry[i], "it must be 0 or 1");
    return 1;
}

#endif
