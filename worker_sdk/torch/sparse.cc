#include "worker_sdk/torch/sparse.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "worker_sdk/reduce/float_mode.h"
#include "worker_sdk/torch/communicator.h"
#include "worker_sdk/torch/tensors.h"

namespace muster_torch {
namespace {

constexpr int64_t kDimsMax = 16;

// What a rank has: a row of numbers, which the others read.
struct Card {
  std::array<int64_t, 4 + kDimsMax> row = {};

  Card() = default;
  explicit Card(const at::Tensor& tensor) {
    row[0] = tensor._nnz();
    row[1] = static_cast<int64_t>(tensor.scalar_type());
    row[2] = tensor.sparse_dim();
    row[3] = tensor.dim();
    std::copy_n(tensor.sizes().begin(), tensor.dim(), row.begin() + 4);
  }
  int64_t entries() const { return row[0]; }
  at::ScalarType type() const { return static_cast<at::ScalarType>(row[1]); }
  int64_t sparse_dims() const { return row[2]; }
  at::IntArrayRef sizes() const { return {row.data() + 4, static_cast<size_t>(row[3])}; }
  bool IsLike(const Card& other) const {
    return std::equal(row.begin() + 1, row.end(), other.row.begin() + 1);
  }
};

std::vector<Card> CardsOf(muster_comm* comm, const at::Tensor& mine) {
  const Card card(mine);
  std::vector<Card> cards(static_cast<size_t>(muster_size(comm)));
  Check(muster_all_gather(comm, card.row.data(), cards.data(), card.row.size(), MUSTER_INT64));
  for (size_t rank = 1; rank < cards.size(); ++rank) {
    TORCH_CHECK(cards[rank].IsLike(cards[0]), "muster: all_reduce: rank 0 has a sparse tensor of ",
                cards[0].sizes(), " x ", cards[0].type(), " with ", cards[0].sparse_dims(),
                " sparse dimensions, rank ", rank, " one of ", cards[rank].sizes(), " x ",
                cards[rank].type(), " with ", cards[rank].sparse_dims());
  }
  return cards;
}

// The numbers of all ranks, one behind another; each has `of_entry` of them for an entry.
at::Tensor GatherParts(muster_comm* comm, const std::vector<Card>& cards, int64_t of_entry,
                       const at::Tensor& mine) {
  const Moved as(mine);
  std::vector<int64_t> counts;
  int64_t all = 0;
  for (const Card& card : cards) {
    all += card.entries() * of_entry;
    counts.push_back(card.entries() * of_entry * as.per_element);
  }
  const at::Tensor in = mine.contiguous();
  at::Tensor out = at::empty({all}, mine.options());
  Check(muster_all_gather_v(comm, in.data_ptr(), out.data_ptr(), counts.data(), as.dtype));
  return out;
}

}  // namespace

void CheckSparse(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  CheckHost(call, tensor);
  TORCH_CHECK(op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG, "muster: ", call,
              ": of sparse tensors there are the sum and the average; pass tensor.to_dense()");
  TORCH_CHECK(op == c10d::ReduceOp::SUM || at::isFloatingType(tensor.scalar_type()),
              "muster: ", call, ": the average of sparse tensors of ", tensor.scalar_type(),
              "; pass tensor.to_dense()");
  TORCH_CHECK(tensor.dim() <= kDimsMax, "muster: ", call, ": a sparse tensor of ", tensor.dim(),
              " dimensions; want at most ", kDimsMax, ", or pass tensor.to_dense()");
}

void AllReduceSparse(muster_comm* comm, const at::Tensor& tensor, bool averages) {
  const muster::DefaultFloatMode mode;  // as for dense ones: all ranks get the same bits
  const at::Tensor mine = tensor.coalesce();
  const std::vector<Card> cards = CardsOf(comm, mine);
  const int64_t sparse_dims = mine.sparse_dim();
  std::vector<int64_t> shape = mine._values().sizes().vec();  // of all values
  int64_t of_entry = 1;
  for (size_t dim = 1; dim < shape.size(); ++dim) {
    of_entry *= shape[dim];
  }
  const at::Tensor indices = GatherParts(comm, cards, sparse_dims, mine._indices());
  const at::Tensor values = GatherParts(comm, cards, of_entry, mine._values());
  std::vector<at::Tensor> parts;
  int64_t at = 0;
  shape[0] = 0;
  for (const Card& card : cards) {
    const int64_t count = card.entries() * sparse_dims;
    parts.push_back(indices.narrow(0, at, count).view({sparse_dims, card.entries()}));
    at += count;
    shape[0] += card.entries();
  }
  const at::Tensor all =
      at::sparse_coo_tensor(at::cat(parts, 1), values.view(shape), mine.sizes()).coalesce();
  if (averages) {
    all._values().div_(static_cast<int64_t>(cards.size()));
  }
  tensor.copy_(all);
}

}  // namespace muster_torch
