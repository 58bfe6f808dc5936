#ifndef INFER_C_API_INFER_H_
#define INFER_C_API_INFER_H_
/* The C API of infer-opt: load an ONNX model, rewrite it, compile it for a device, run it, also
 * asynchronously.
 *
 * Experimental until 1.0: INFER_API_VERSION goes up with each change that breaks a caller.
 * Structures that a caller fills begin with their size, so that a later library takes them from an
 * older program.
 *
 * Errors. A function that can fail returns an infer_code; infer_last_error() is the text for the
 * calling thread, valid until its next call that fails. Nothing is written through a result pointer
 * then. No C++ exception leaves a function. Threads. A model may be read by many threads, and
 * changed (infer_model_fuse) by one that has it alone. A session may be run from many threads at
 * once; requests beyond its instances wait in order of arrival. Free a session once: it ends what
 * has not begun as INFER_CANCELLED and waits for the callbacks. Memory. Pointers in infer_value and
 * infer_tensor belong to the object that they were asked of and live as long. A NULL given to a
 * ..._free function is ignored.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define INFER_API __attribute__((visibility("default")))
#else
#define INFER_API
#endif

#define INFER_API_VERSION 1

typedef enum infer_code {
  INFER_OK = 0,
  INFER_INVALID_ARGUMENT = 1, /* the caller's arguments make no sense */
  INFER_INVALID_MODEL = 2,    /* the file is broken */
  INFER_UNSUPPORTED = 3,      /* valid, but an operator, type or device that is missing here */
  INFER_IO = 4,               /* the operating system refused to read or write */
  INFER_RESOURCE = 5,         /* out of memory, or a limit was reached */
  INFER_CANCELLED = 6,        /* cancelled, or later than its timeout */
  INFER_INTERNAL = 7          /* a bug of this library */
} infer_code;

/* Element types; the numbers are those of ONNX's TensorProto.DataType. */
typedef enum infer_dtype {
  INFER_UNDEFINED = 0,
  INFER_F32 = 1,
  INFER_U8 = 2,
  INFER_I8 = 3,
  INFER_U16 = 4,
  INFER_I16 = 5,
  INFER_I32 = 6,
  INFER_I64 = 7,
  INFER_STRING = 8, /* described, but neither taken nor given as data */
  INFER_BOOL = 9,
  INFER_F16 = 10,
  INFER_F64 = 11,
  INFER_U32 = 12,
  INFER_U64 = 13,
  INFER_C64 = 14,
  INFER_C128 = 15,
  INFER_BF16 = 16
} infer_dtype;

/* A dense row-major tensor in host memory, aligned for its elements. */
typedef struct infer_tensor {
  int32_t dtype; /* infer_dtype */
  int32_t rank;
  const int64_t* dims; /* [rank]; NULL where rank is 0 */
  const void* data;
  size_t bytes; /* of data: elements * size of one */
} infer_tensor;

/* An input or output as the model declares it. */
typedef struct infer_value {
  const char* name;
  int32_t dtype;              /* infer_dtype; INFER_UNDEFINED: a sequence, an optional or a map */
  int32_t rank;               /* -1: not known */
  const int64_t* dims;        /* [rank]; -1: open, or named by `symbols` */
  const char* const* symbols; /* [rank]; "" where an extent has no name */
} infer_value;

typedef struct infer_model infer_model;
typedef struct infer_session infer_session;
typedef struct infer_result infer_result;

/* "0.1.0" of the library that runs; INFER_API_VERSION of it. */
INFER_API const char* infer_version(void);
INFER_API int infer_api_version(void);
/* Of the calling thread's last call that failed; "" where none has. UTF-8. */
INFER_API const char* infer_last_error(void);

/* Models. */
INFER_API infer_code infer_model_load(const char* path, infer_model** model);
/* The bytes of an .onnx file without external data; they are copied. */
INFER_API infer_code infer_model_load_bytes(const void* bytes, size_t size, infer_model** model);
INFER_API void infer_model_free(infer_model* model);
INFER_API size_t infer_model_inputs(const infer_model* model);
INFER_API size_t infer_model_outputs(const infer_model* model);
INFER_API infer_code infer_model_input(const infer_model* model, size_t i, infer_value* value);
INFER_API infer_code infer_model_output(const infer_model* model, size_t i, infer_value* value);
/* Nodes, with those of bodies of control flow. */
INFER_API size_t infer_model_nodes(const infer_model* model);
/* The rewrites of `infer-opt fuse`: level 0 nothing, 1 simplify, 2 fusions, 3 blocks such as
 * attention. No check against the original is made: `infer-opt fuse` makes one. */
INFER_API infer_code infer_model_fuse(infer_model* model, int level);
/* As ONNX, in whole or not at all. Operators that only infer-opt has are written as model-local
 * functions. */
INFER_API infer_code infer_model_save(const infer_model* model, const char* path);

/* Sessions: a model compiled for a device. */
typedef struct infer_session_options {
  size_t size;        /* sizeof(infer_session_options) */
  const char* device; /* NULL or "cpu"; "reference"; "vulkan", "vulkan:1" */
  int32_t threads;    /* of one run; 0: all cores */
  int32_t instances;  /* runs that go on at once; 0: 1 */
  int32_t max_batch; /* requests that share a run, along an axis proved to be a batch; 0 or 1: none.
                        INFER_UNSUPPORTED where none is proved */
  int32_t max_delay_us; /* that a request waits for others to share its run */
} infer_session_options;

/* `options` may be NULL. The session keeps nothing of `model`. */
INFER_API infer_code infer_session_create(const infer_model* model,
                                          const infer_session_options* options,
                                          infer_session** session);
INFER_API void infer_session_free(infer_session* session);
/* `inputs` in the order of the model's; their data is read until the call returns. */
INFER_API infer_code infer_session_run(infer_session* session, const infer_tensor* inputs,
                                       size_t count, infer_result** result);
/* Called once for each request that infer_session_submit took, on a thread of the session or, for a
 * request that is rejected, before infer_session_submit returns. `result` is NULL unless `code` is
 * INFER_OK, and the callee's to free. `error` lives as long as the call. It may submit; it must
 * neither free the session nor call infer_session_run. */
typedef void (*infer_callback)(void* user, infer_code code, const char* error,
                               infer_result* result);
/* Returns at once. The data of `inputs` is read until the callback is called. timeout_us < 0: none;
 * it counts from this call. Not INFER_OK: `callback` is not called. */
INFER_API infer_code infer_session_submit(infer_session* session, const infer_tensor* inputs,
                                          size_t count, int64_t timeout_us, infer_callback callback,
                                          void* user);

/* Results: the outputs of one run, in the order of the model's. */
INFER_API size_t infer_result_outputs(const infer_result* result);
INFER_API infer_code infer_result_output(const infer_result* result, size_t i,
                                         infer_tensor* tensor);
INFER_API void infer_result_free(infer_result* result);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* INFER_C_API_INFER_H_ */
