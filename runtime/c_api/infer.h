#ifndef INFER_C_API_INFER_H_
#define INFER_C_API_INFER_H_
/* The C API of infer-opt: load an ONNX model, rewrite, quantize or prune it, compare it with what
 * it was, compile it for a device, run it, also asynchronously.
 *
 * Experimental until 1.0: INFER_API_VERSION goes up with each change that breaks a caller.
 * Structures that a caller fills begin with their size, so that a later library takes them from an
 * older program; an older library refuses members that it does not know, unless they are 0.
 *
 * Errors. A function that can fail returns an infer_code; infer_last_error() is the text for the
 * calling thread, valid until its next call that fails. Nothing is written through a result pointer
 * then. No C++ exception leaves a function. Threads. A model may be read by many threads, and
 * changed (fused, quantized, pruned) by one that has it alone. A session may be run from many
 * threads at once; requests beyond its instances wait in order of arrival. Free a session once: it
 * ends what has not begun as INFER_CANCELLED and waits for the callbacks. Memory. Pointers in
 * infer_value and infer_tensor belong to the object that they were asked of and live as long. A
 * NULL given to a
 * ..._free function is ignored. Options of 0 or NULL are the defaults of the commands' options of
 * the same name. Structures with `size` are zeroed, then their size is set, then what is not to be
 * the default.
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
  INFER_INTERNAL = 7,         /* a bug of this library */
  INFER_GATE = 8              /* the result lost more than max_drop allows */
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
/* What the last function that loaded or changed the model warned of, a line each; "": of nothing.
 * Until the model is changed or freed. */
INFER_API const char* infer_model_warnings(const infer_model* model);
/* The rewrites of `infer-opt fuse`: level 0 nothing, 1 simplify, 2 fusions, 3 blocks such as
 * attention. No check against the original is made: `infer-opt fuse` makes one. */
INFER_API infer_code infer_model_fuse(infer_model* model, int level);
/* As ONNX, in whole or not at all. Operators that only infer-opt has are written as model-local
 * functions. */
INFER_API infer_code infer_model_save(const infer_model* model, const char* path);

/* Samples: inputs to calibrate with or to compare on.
 *
 * They are asked for by number, and more than once: algorithms go over them several times, and hold
 * one at a time. Either all of them lie in memory (`inputs`), or `read` gives the one that is asked
 * for; it is called on the thread that called the function, never twice at once, and must not use
 * the model. */

/* Fills `inputs`, one tensor per input of the model. What they point to is the callee's until the
 * next call, or until the function that was given the samples returns. Returns an infer_code;
 * another than INFER_OK ends that function with it. */
typedef int (*infer_read_sample)(void* user, size_t i, infer_tensor* inputs);

typedef struct infer_samples {
  size_t size; /* sizeof(infer_samples) */
  size_t count;
  const infer_tensor* inputs; /* [count * inputs of the model], sample after sample; NULL: `read` */
  infer_read_sample read;
  void* user;
  const int64_t* labels; /* NULL: none; [count * labels_per_sample] classes, one per row of scores
                            of the first output: then accuracy is what counts. A number that is no
                            class is none to a recipe, and an error to a comparison */
  size_t labels_per_sample; /* 0: 1 */
} infer_samples;

/* Told while a function works, on the thread that called it: `done` of `total` (0: not known) of
 * `step`. Another value than 0 ends it soon as INFER_CANCELLED. */
typedef int (*infer_progress)(void* user, const char* step, int64_t done, int64_t total);

/* A metric of the caller's own: writes a finite number to `metric`, of which more is better.
 * `session` runs the golden model, which is measured first, or a candidate; with `device` and
 * `threads` of the options. It is the callee's to free, at once or later. Called on the thread that
 * called the function, and must not rewrite the model. Returns an infer_code; another than INFER_OK
 * ends that function with it. */
typedef int (*infer_evaluate)(void* user, infer_session* session, double* metric);

/* Quantization: `infer-opt quantize`, without its gates, its comparison and its measurement of the
 * result, as for a file of any opset (--opset max). */
typedef struct infer_quantize_options {
  size_t size;                      /* sizeof(infer_quantize_options) */
  const char* mode;                 /* "static" (NULL), "dynamic", "weight-only", "fp16", "bf16" */
  const infer_samples* calibration; /* static needs it; so do the methods of weight-only that round
                                       by data; fp16 and bf16 check ranges with it */
  const char* device;               /* that runs the samples; as infer_session_options.device */
  int32_t threads;                  /* 0: all cores */
  infer_progress progress;
  void* user;                 /* of `progress` */
  const char* const* include; /* ends with NULL: only these nodes; "conv*", "re:TEXT", "op:Conv" */
  const char* const* exclude; /* ends with NULL: not these; wins */
  const char* format; /* static: "qdq" (NULL), "qoperator"; weight-only: "nbits" (NULL), "qdq" */
  /* static */
  const char* recipe;      /* "none", "fast", "balanced" (NULL), "best" */
  const char* observer;    /* "auto" (NULL), "mse", "entropy", "minmax", "percentile:99.99", ... */
  const char* activations; /* "u8" (NULL), "s8", "u16", "s16" */
  const char* weights;     /* "s8" (NULL), "u8" */
  int32_t symmetric_activations;
  int32_t per_tensor;   /* one scale per weight tensor */
  int32_t reduce_range; /* 7-bit weights */
  int32_t keep_first;   /* so many first layers stay f32 */
  int32_t keep_last;
  /* weight-only */
  int32_t bits;  /* 2, 4 (0) or 8 */
  int32_t block; /* weights with one scale: 16 to 256, 64 (0); -1: those of an output */
  int32_t asymmetric;
  int32_t accuracy_level;
  const char* method; /* "mse" (NULL), "nearest", "hqq"; by data "gptq", "awq", "auto", ... */
  /* With `evaluate` the result is taken only where golden - candidate <= max_drop, in the metric's
   * own unit: else INFER_GATE, and the text tells what was measured. In mode static without a
   * `recipe`, "fast", "balanced" and "best" are tried in this order until one is taken. */
  infer_evaluate evaluate; /* with `user` */
  double max_drop;         /* 0: no loss; infinite: any, the metric is only told */
  /* static, dynamic, weight-only: weights become zero while they are rounded. `sparsity`, `nm` or
   * `blocks` (with or without `sparsity`) */
  double sparsity;    /* of the weights or blocks, above 0 and below 1 */
  const char* nm;     /* "2:4": of each 4 weights along the inputs at most 2 stay */
  const char* blocks; /* "16x4": rows x columns that become zero together; half where there is no
                         `sparsity` */
} infer_quantize_options;

typedef struct infer_quantize_report {
  size_t size;                 /* sizeof(infer_quantize_report), set by the caller */
  int64_t integer_layers;      /* with another precision than f32 */
  int64_t quantizable_layers;  /* that the mode covers */
  int64_t weight_bytes_before; /* of all constants */
  int64_t weight_bytes_after;
  int64_t calibration_samples;
  double held_out_sqnr_db; /* of a recipe: of the worst output, on the samples that chose its steps;
                              infinite where nothing differs; NaN: not measured */
  double cost_us_before;   /* of a recipe, of one run, by its cost table: fused FP32, the result; */
  double cost_us_after;    /* NaN: not known */
  double golden_metric;    /* of `evaluate`: of the model as it came, of the result; */
  double candidate_metric; /* NaN: not measured */
  const char* recipe;      /* that made the result; "" in other modes than static. Never freed */
} infer_quantize_report;

/* Rewrites the model, in whole or not at all. `report` may be NULL. INFER_UNSUPPORTED: nothing can
 * be quantized; the text says why. Where the recipe finds that nothing is worth quantizing, the
 * result is the fused FP32 model and integer_layers is 0. */
INFER_API infer_code infer_model_quantize(infer_model* model, const infer_quantize_options* options,
                                          infer_quantize_report* report);

/* Pruning: `infer-opt prune`, without fine-tuning, gates, comparison and measurement. One of
 * `sparsity`, `nm`, `blocks` (with or without `sparsity`), `flops`, `rank` and `low_rank` says how
 * much goes. */
typedef struct infer_prune_options {
  size_t size;                      /* sizeof(infer_prune_options) */
  const infer_samples* calibration; /* NULL: chosen by magnitude alone */
  const char* device;               /* that runs the samples */
  int32_t threads;
  infer_progress progress;
  void* user;
  const char* const* include; /* as infer_quantize_options */
  const char* const* exclude;
  double sparsity;        /* of the weights or blocks, above 0 and below 1: become zero */
  const char* nm;         /* "2:4": of each 4 weights along the inputs at most 2 stay */
  const char* blocks;     /* "1x4": rows x columns that become zero together; half where there is no
                             `sparsity` */
  const char* method;     /* "auto" (NULL), "magnitude", "wanda", "sparsegpt" */
  const char* allocation; /* "auto" (NULL), "measured", "uniform", "global", "lamp" */
  double flops; /* channels are removed: the share of the FLOPs, above 0 and below 1, that stays;
                   samples or static inputs tell the FLOPs */
  infer_evaluate evaluate; /* as infer_quantize_options */
  double max_drop;
  double rank;     /* products are split in two of low rank: the share of its full rank, above 0 and
                      below 1, that each keeps where that is smaller and faster; needs samples */
  double low_rank; /* the same: the share of the constants' bytes, above 0 and below 1, that stays
                      at most; ranks are chosen by what they cost at the outputs */
} infer_prune_options;

typedef struct infer_prune_report {
  size_t size; /* sizeof(infer_prune_report), set by the caller */
  int64_t calibration_samples;
  int64_t weights;           /* of the layers that were selected */
  int64_t zeros;             /* among them; 0 with `flops`, `rank` and `low_rank` */
  int64_t parameters_before; /* with `flops`, `rank` and `low_rank`; else 0 */
  int64_t parameters_after;
  int64_t flops_before; /* with the same; -1: extents are open */
  int64_t flops_after;
  int64_t channels_removed; /* with `flops` */
  double golden_metric;     /* as infer_quantize_report */
  double candidate_metric;
  int64_t products_split; /* with `rank` and `low_rank` */
} infer_prune_report;

/* Rewrites the model, in whole or not at all. `report` may be NULL. */
INFER_API infer_code infer_model_prune(infer_model* model, const infer_prune_options* options,
                                       infer_prune_report* report);

/* Comparison, as `infer-opt compare`: what a candidate computes beside a golden model. */
typedef struct infer_comparison infer_comparison;

typedef struct infer_compare_options {
  size_t size;        /* sizeof(infer_compare_options) */
  const char* device; /* of both */
  int32_t threads;
  infer_progress progress;
  void* user;
} infer_compare_options;

/* Over all elements of all samples of one output; NaN: not measured. */
typedef struct infer_accuracy {
  size_t size;      /* sizeof(infer_accuracy), set by the caller */
  const char* name; /* of the output */
  int64_t samples;
  int64_t elements;
  double sqnr_db;         /* infinite where nothing differs */
  double max_abs_error;   /* max|d| */
  double max_error_ratio; /* max|d| / max|golden|, of the worst sample */
  double cosine;
  int64_t unequal;               /* elements of no floating-point type that differ */
  int64_t non_finite_mismatches; /* NaN or infinite on one side */
  int64_t rows;                  /* of scores; 0: the output has none */
  double top1_agreement;         /* share of rows whose highest score stands at the same place */
  double kl;                     /* mean divergence of the rows' distributions */
  double golden_top1;            /* with labels, of the first output: accuracy */
  double candidate_top1;
} infer_accuracy;

/* The golden model runs as it is, the candidate fused. `options` may be NULL.
 * INFER_INVALID_ARGUMENT: no samples, or models whose inputs or outputs differ by name. */
INFER_API infer_code infer_model_compare(const infer_model* golden, const infer_model* candidate,
                                         const infer_samples* samples,
                                         const infer_compare_options* options,
                                         infer_comparison** comparison);
INFER_API size_t infer_comparison_outputs(const infer_comparison* comparison);
INFER_API infer_code infer_comparison_output(const infer_comparison* comparison, size_t i,
                                             infer_accuracy* accuracy);
INFER_API void infer_comparison_free(infer_comparison* comparison);

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
/* Output `i` as DLPack (dlpack.h) has it, in host memory, without a copy: it shares the numbers
 * with the result, and may outlive it. Its receiver calls `deleter` once, on any thread. */
struct DLManagedTensor;
INFER_API infer_code infer_result_dlpack(const infer_result* result, size_t i,
                                         struct DLManagedTensor** tensor);
INFER_API void infer_result_free(infer_result* result);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* INFER_C_API_INFER_H_ */
