#include "runtime/plan_ir/weight_source.h"

#include <utility>

namespace infer {

WeightSource::WeightSource(Tensor elements)
    : dtype_(elements.dtype()), dims_(elements.dims()), elements_(std::move(elements)) {}

Result<Tensor> WeightSource::Elements() const {
  const std::lock_guard lock(mutex_);
  return ElementsLocked();
}

Result<Tensor> WeightSource::ElementsLocked() const {
  if (elements_.defined()) return elements_;
  if (auto buffer = made_again_.lock()) return Tensor(dtype_, dims_, std::move(buffer));
  INFER_CHECK(stand_in_ && unpack_);
  INFER_ASSIGN(Tensor made, unpack_(*stand_in_));
  made_again_ = made.buffer();
  return made;
}

void WeightSource::StandIn(const Form& form, UnpackFn unpack) {
  stand_in_ = form;
  unpack_ = std::move(unpack);
  if (may_go_) elements_ = Tensor();
}

Result<WeightSource::Form> WeightSource::Plain() {
  const std::lock_guard lock(mutex_);
  INFER_ASSIGN(const Tensor elements, ElementsLocked());
  const std::shared_ptr<Buffer>& buffer = elements.buffer();
  // The unpacker must not own what it unpacks: stand_in_ does.
  StandIn(buffer,
          [dtype = dtype_, dims = dims_, weak = std::weak_ptr<Buffer>(buffer)](
              const Buffer&) -> Result<Tensor> { return Tensor(dtype, dims, weak.lock()); });
  return Form(buffer);
}

WeightSource::Form WeightSource::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = forms_.find(key);
  if (found == forms_.end()) return nullptr;
  Form form = found->second.known.lock();
  if (form) found->second = {form, form, true};
  return form;
}

Result<WeightSource::Form> WeightSource::Get(const std::string& key, PackFn pack, UnpackFn unpack) {
  if (Form known = Find(key)) return known;
  const std::lock_guard lock(mutex_);
  Kept& kept = forms_[key];
  if (Form known = kept.known.lock()) return known;  // another thread's
  INFER_ASSIGN(const Tensor elements, ElementsLocked());
  INFER_ASSIGN(Form form, pack(elements));
  kept = {form, form, true};
  if (unpack) StandIn(form, std::move(unpack));
  return form;
}

void WeightSource::HeldBy(const Form& form, UnpackFn unpack) {
  const std::lock_guard lock(mutex_);
  StandIn(form, std::move(unpack));
}

void WeightSource::LetElementsGo() {
  const std::lock_guard lock(mutex_);
  may_go_ = true;
  if (stand_in_) elements_ = Tensor();
}

void WeightSource::ForgetForms() {
  const std::lock_guard lock(mutex_);
  for (auto it = forms_.begin(); it != forms_.end();) {
    Kept& kept = it->second;
    if (!std::exchange(kept.asked, false)) kept.held = nullptr;
    it = kept.held || !kept.known.expired() ? std::next(it) : forms_.erase(it);
  }
}

std::shared_ptr<WeightSource> WeightSources::Of(int id, const Tensor& elements) {
  const std::lock_guard lock(mutex_);
  auto& source = sources_[id];
  if (!source) source = std::make_shared<WeightSource>(elements);
  return source;
}

std::shared_ptr<WeightSource> WeightSources::Find(int id) const {
  const std::lock_guard lock(mutex_);
  const auto found = sources_.find(id);
  return found == sources_.end() ? nullptr : found->second;
}

void WeightSources::ForgetForms() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, source] : sources_) source->ForgetForms();
}

void WeightSources::Drop(int id) {
  const std::lock_guard lock(mutex_);
  sources_.erase(id);
}

}  // namespace infer
