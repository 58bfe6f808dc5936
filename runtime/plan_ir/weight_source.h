#pragma once
/// WeightSource: the elements of one constant, for the kernels that pack it. Where the program
/// allows it, a form from which the elements can be made again takes their place, so that a weight
/// is held once whatever shapes come (docs/adr/0078-weights-that-can-be-made-again.md).
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "lib/support/function_ref.h"
#include "lib/support/status.h"
#include "lib/tensor/tensor.h"

namespace infer {

/// Thread-safe.
class WeightSource {
 public:
  using Form = std::shared_ptr<const Buffer>;
  using PackFn = FunctionRef<Result<Form>(const Tensor& elements)>;
  /// The elements that a form was made of, each as it was.
  using UnpackFn = std::function<Result<Tensor>(const Buffer& form)>;

  explicit WeightSource(Tensor elements);

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t num_elements() const { return NumElements(dims_); }

  /// Made again where they are gone. For the length of a Prepare: whoever keeps them holds the
  /// weight a second time.
  Result<Tensor> Elements() const;
  /// The elements themselves as a form: row-major.
  Result<Form> Plain();
  /// The form that is known as `key`: kept, or packed now. A key says all that `pack` hangs on.
  /// Without `unpack` the elements stay beside the form.
  Result<Form> Get(const std::string& key, PackFn pack, UnpackFn unpack = nullptr);
  /// The form `key`, where one is kept; nullptr else. It counts as asked for.
  Form Find(const std::string& key);
  /// `form`, which another source keeps and was made of this one's elements too, can give them.
  void HeldBy(const Form& form, UnpackFn unpack);

  /// From now on the elements may go where a form can give them.
  void LetElementsGo();
  /// Of forms that were not asked for since the last call those stay that somebody else holds, and
  /// the one that stands for the elements.
  void ForgetForms();

 private:
  struct Kept {
    std::weak_ptr<const Buffer> known;
    Form held;          // nullptr: as long as others hold it
    bool asked = true;  // since the last ForgetForms
  };
  Result<Tensor> ElementsLocked() const;
  void StandIn(const Form& form, UnpackFn unpack);

  const DType dtype_;
  const Dims dims_;
  mutable std::mutex mutex_;
  Tensor elements_;                           // undefined: gone
  mutable std::weak_ptr<Buffer> made_again_;  // that somebody may still read
  std::map<std::string, Kept> forms_;
  Form stand_in_;  // gives the elements; nullptr: no form can yet
  UnpackFn unpack_;
  bool may_go_ = false;
};

/// The sources of a program's constants, by value id. Thread-safe.
class WeightSources {
 public:
  std::shared_ptr<WeightSource> Of(int id, const Tensor& elements);
  /// nullptr: no kernel asked for it.
  std::shared_ptr<WeightSource> Find(int id) const;
  void Drop(int id);
  void ForgetForms();  ///< of each

 private:
  mutable std::mutex mutex_;
  std::unordered_map<int, std::shared_ptr<WeightSource>> sources_;
};

}  // namespace infer
