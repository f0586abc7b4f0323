/* Which of the `available` loops this machine can run, and the two functions that let Python ask and
 * choose. Included after `available` and `chosen` are defined; the sets come in ascending order. */
static int n_supported(void) {
#if X86_DISPATCH
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("popcnt")) return 1;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return 3;
    return 2;
#else
    return 1;
#endif
}

static PyObject *py_instruction_sets(PyObject *self, PyObject *args) {
    (void)self;
    (void)args;
    PyObject *names = PyList_New(0);
    for (int i = 0; names && i < n_supported(); i++) {
        PyObject *name = PyUnicode_FromString(available[i].name);
        if (!name || PyList_Append(names, name) < 0) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *py_use(PyObject *self, PyObject *arg) {
    (void)self;
    const char *name = PyUnicode_AsUTF8AndSize(arg, NULL);
    if (!name) return NULL;
    for (int i = 0; i < n_supported(); i++)
        if (!strcmp(name, available[i].name)) {
            chosen = &available[i];
            Py_RETURN_NONE;
        }
    PyErr_Format(PyExc_ValueError, "kernel: this machine has no instruction set '%s'", name);
    return NULL;
}
