#include "runtime/base/status.h"

namespace aipu {

const std::string& Status::message() const {
  static const std::string kNone;
  return rep_ ? rep_->message : kNone;
}

Status&& Status::context(std::string_view where) && {
  if (rep_) rep_->message = str_cat(where, ": ", rep_->message);
  return std::move(*this);
}

}  // namespace aipu
