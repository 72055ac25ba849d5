// The two control-flow macros this project has.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expr)                           \
  do {                                                  \
    if (absl::Status status_ = (expr); !status_.ok()) { \
      return status_;                                   \
    }                                                   \
  } while (false)

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(MUSTER_CONCAT(status_or_, __LINE__), lhs, expr)
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses
#define ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                          \
  if (!result.ok()) {                            \
    return result.status();                      \
  }                                              \
  lhs = std::move(*result)
// NOLINTEND(bugprone-macro-parentheses)
