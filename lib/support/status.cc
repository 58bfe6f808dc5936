#include "lib/support/status.h"

#include "lib/support/exceptions.h"

namespace infer {

struct Status::Failure {
  Code code;
  std::string message;
};

Status::Status(Code code, std::string message)
    : failure_(code == Code::kOk ? nullptr : new Failure{code, std::move(message)}) {}

Status::Failure* Status::Copy(const Failure& f) { return new Failure(f); }

void Status::Delete(Failure* f) { delete f; }

Code Status::code() const { return ok() ? Code::kOk : failure_->code; }

const std::string& Status::message() const {
  static const std::string none;
  return ok() ? none : failure_->message;
}

Status Status::In(std::string_view where) && {
  if (!ok()) failure_->message.insert(0, std::string(where) + ": ");
  return std::move(*this);
}

Status InvalidArgument(std::string m) { return {Code::kInvalidArgument, std::move(m)}; }
Status InvalidModel(std::string m) { return {Code::kInvalidModel, std::move(m)}; }
Status Unsupported(std::string m) { return {Code::kUnsupported, std::move(m)}; }
Status IoError(std::string m) { return {Code::kIo, std::move(m)}; }
Status ResourceExhausted(std::string m) { return {Code::kResource, std::move(m)}; }
Status Cancelled(std::string m) { return {Code::kCancelled, std::move(m)}; }
Status Internal(std::string m) { return {Code::kInternal, std::move(m)}; }

void CheckFailed(const char* file, int line, const char* text) {
  throw CheckFailure(std::string("internal error, please report it with the model: ") + file + ":" +
                     std::to_string(line) + ": check failed: " + text);
}

}  // namespace infer
