// The calls in which each rank has a part: gathers, scatters, all-to-alls.
#include <utility>

#include "worker_sdk/torch/process_group.h"
#include "worker_sdk/torch/tensors.h"

namespace muster_torch {
namespace {

// Elements of each rank: `rows` of the first axis, or equal parts where there are none.
std::vector<int64_t> PartsOf(const char* what, const at::Tensor& tensor,
                             const std::vector<int64_t>& rows, int size) {
  constexpr char kName[] = "all_to_all_single";
  const int64_t all = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (rows.empty()) {
    TORCH_CHECK(all % size == 0, "muster: ", kName, ": ", what, ": ", all,
                " rows are no multiple of ", size, " ranks: give split sizes");
    return std::vector<int64_t>(static_cast<size_t>(size), tensor.numel() / size);
  }
  int64_t sum = 0;
  std::vector<int64_t> out;
  for (const int64_t count : rows) {
    TORCH_CHECK(count >= 0, "muster: ", kName, ": ", what, ": a split size of ", count);
    sum += count;
    out.push_back(all == 0 ? 0 : count * (tensor.numel() / all));
  }
  TORCH_CHECK(static_cast<int>(rows.size()) == size && sum == all, "muster: ", kName, ": ", what,
              ": want ", size, " split sizes whose sum is ", all, ", got ", rows.size(),
              " with a sum of ", sum);
  return out;
}

void GatherInto(muster_comm* comm, const at::Tensor& input, const at::Tensor& output) {
  const Moved as(input);
  const at::Tensor in = InOrder(input);
  const at::Tensor out = InOrder(output);
  Check(muster_all_gather(comm, in.data_ptr(), out.data_ptr(), in.numel() * as.per_element,
                          as.dtype));
  PutBack(out, output);
}

void Scale(std::vector<int64_t>& counts, int64_t factor) {
  for (int64_t& count : counts) {
    count *= factor;
  }
}

std::vector<int64_t> CountsOf(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> out;
  out.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    out.push_back(tensor.numel());
  }
  return out;
}

}  // namespace

ProcessGroup::WorkPtr ProcessGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& /*options*/) {
  constexpr char kName[] = "all_gather";
  const at::Tensor input = TheOne(kName, inputs);
  TORCH_CHECK(outputs.size() == 1, "muster: ", kName, ": want one list of tensors, got ",
              outputs.size());
  CheckAlike(kName, outputs.front(), getSize(), input);
  return Start(c10d::OpType::ALLGATHER, outputs.front(), input.nbytes(),
               [input, output = outputs.front()](muster_comm* comm) {
                 const Moved as(input);
                 const at::Tensor in = InOrder(input);
                 const at::Tensor out = RoomFor(output);
                 Check(muster_all_gather(comm, in.data_ptr(), out.data_ptr(),
                                         in.numel() * as.per_element, as.dtype));
                 PutBack(out, output);
               });
}

ProcessGroup::WorkPtr ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& /*options*/) {
  constexpr char kName[] = "all_gather_into_tensor";
  CheckDense(kName, input);
  CheckParts(kName, output, input, getSize());
  return Start(c10d::OpType::_ALLGATHER_BASE, {output}, output.nbytes(),
               [input, output](muster_comm* comm) { GatherInto(comm, input, output); });
}

#if MUSTER_TORCH_COALESCES_TENSORS
ProcessGroup::WorkPtr ProcessGroup::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& /*options*/) {
  constexpr char kName[] = "all_gather_into_tensor_coalesced";
  CheckPairs(kName, outputs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckDense(kName, inputs[i]);
    CheckParts(kName, outputs[i], inputs[i], getSize());
  }
  return Start(c10d::OpType::_ALLGATHER_BASE, outputs, 0, [outputs, inputs](muster_comm* comm) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      GatherInto(comm, inputs[i], outputs[i]);
    }
  });
}
#endif

ProcessGroup::WorkPtr ProcessGroup::allgather_coalesced(std::vector<Tensors>& outputs,
                                                        Tensors& inputs,
                                                        const c10d::AllgatherOptions& /*options*/) {
  constexpr char kName[] = "all_gather_coalesced";
  TORCH_CHECK(!inputs.empty(), "muster: ", kName, ": want at least one tensor");
  TORCH_CHECK(static_cast<int>(outputs.size()) == getSize(), "muster: ", kName, ": want ",
              getSize(), " lists of tensors, one for each rank, got ", outputs.size());
  Tensors all;
  for (const Tensors& of_rank : outputs) {
    TORCH_CHECK(of_rank.size() == inputs.size(), "muster: ", kName, ": want lists of ",
                inputs.size(), " tensors, got one of ", of_rank.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      CheckDense(kName, inputs[i]);
      CheckAlike(kName, {of_rank[i]}, 1, inputs[i]);
      TORCH_CHECK(inputs[i].scalar_type() == inputs[0].scalar_type(), "muster: ", kName,
                  ": want tensors of one type, got ", inputs[0].scalar_type(), " and ",
                  inputs[i].scalar_type());
      all.push_back(of_rank[i]);
    }
  }
  return Start(c10d::OpType::ALLGATHER_COALESCED, all, 0, [inputs, all](muster_comm* comm) {
    const Moved as(inputs.front());
    const at::Tensor in = Joined(inputs);
    const at::Tensor out = RoomFor(all);
    Check(muster_all_gather(comm, in.data_ptr(), out.data_ptr(), in.numel() * as.per_element,
                            as.dtype));
    PutBack(out, all);
  });
}

ProcessGroup::WorkPtr ProcessGroup::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                           const c10d::GatherOptions& options) {
  constexpr char kName[] = "gather";
  const at::Tensor input = TheOne(kName, inputs);
  const bool here = IsRoot(kName, options.rootRank);
  TORCH_CHECK(outputs.size() == (here ? 1 : 0), "muster: ", kName,
              here ? ": the root wants one list of tensors, got "
                   : ": only the root takes a list of tensors, got ",
              outputs.size());
  const Tensors output = here ? outputs.front() : Tensors();
  if (here) {
    CheckAlike(kName, output, getSize(), input);
  }
  return Start(c10d::OpType::GATHER, output, input.nbytes(),
               [input, output, root = static_cast<int>(options.rootRank)](muster_comm* comm) {
                 const Moved as(input);
                 const at::Tensor in = InOrder(input);
                 const at::Tensor out = output.empty() ? at::Tensor() : RoomFor(output);
                 Check(muster_gather(comm, in.data_ptr(), out.defined() ? out.data_ptr() : nullptr,
                                     in.numel() * as.per_element, as.dtype, root));
                 if (out.defined()) {
                   PutBack(out, output);
                 }
               });
}

ProcessGroup::WorkPtr ProcessGroup::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                            const c10d::ScatterOptions& options) {
  constexpr char kName[] = "scatter";
  const at::Tensor output = TheOne(kName, outputs);
  const bool here = IsRoot(kName, options.rootRank);
  TORCH_CHECK(inputs.size() == (here ? 1 : 0), "muster: ", kName,
              here ? ": the root wants one list of tensors, got "
                   : ": only the root takes a list of tensors, got ",
              inputs.size());
  const Tensors input = here ? inputs.front() : Tensors();
  if (here) {
    CheckAlike(kName, input, getSize(), output);
  }
  return Start(c10d::OpType::SCATTER, outputs, output.nbytes(),
               [output, input, root = static_cast<int>(options.rootRank)](muster_comm* comm) {
                 const Moved as(output);
                 const at::Tensor in = input.empty() ? at::Tensor() : Joined(input);
                 const at::Tensor out = InOrder(output);
                 Check(muster_scatter(comm, in.defined() ? in.data_ptr() : nullptr, out.data_ptr(),
                                      out.numel() * as.per_element, as.dtype, root));
                 PutBack(out, output);
               });
}

ProcessGroup::WorkPtr ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<int64_t>& output_rows,
                                                  std::vector<int64_t>& input_rows,
                                                  const c10d::AllToAllOptions& /*options*/) {
  constexpr char kName[] = "all_to_all_single";
  CheckDense(kName, input);
  CheckDense(kName, output);
  TORCH_CHECK(input.scalar_type() == output.scalar_type(), "muster: ", kName,
              ": want tensors of one type, got ", input.scalar_type(), " and ",
              output.scalar_type());
  const Moved as(input);
  std::vector<int64_t> sent = PartsOf("input", input, input_rows, getSize());
  std::vector<int64_t> expected = PartsOf("output", output, output_rows, getSize());
  Scale(sent, as.per_element);
  Scale(expected, as.per_element);
  return Start(c10d::OpType::ALLTOALL_BASE, {output}, input.nbytes(), [=](muster_comm* comm) {
    const at::Tensor in = InOrder(input);
    const at::Tensor out = InOrder(output);
    Check(muster_all_to_all_v(comm, in.data_ptr(), sent.data(), out.data_ptr(), expected.data(),
                              as.dtype));
    PutBack(out, output);
  });
}

ProcessGroup::WorkPtr ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                             const c10d::AllToAllOptions& /*options*/) {
  constexpr char kName[] = "all_to_all";
  for (const Tensors* list : {&inputs, &outputs}) {
    TORCH_CHECK(static_cast<int>(list->size()) == getSize(), "muster: ", kName, ": want lists of ",
                getSize(), " tensors, one for each rank, got one of ", list->size());
    for (const at::Tensor& tensor : *list) {
      CheckDense(kName, tensor);
      TORCH_CHECK(tensor.scalar_type() == inputs.front().scalar_type(), "muster: ", kName,
                  ": want tensors of one type, got ", inputs.front().scalar_type(), " and ",
                  tensor.scalar_type());
    }
  }
  const Moved as(inputs.front());
  std::vector<int64_t> sent = CountsOf(inputs);
  std::vector<int64_t> expected = CountsOf(outputs);
  Scale(sent, as.per_element);
  Scale(expected, as.per_element);
  return Start(c10d::OpType::ALLTOALL, outputs, 0, [=](muster_comm* comm) {
    const at::Tensor in = Joined(inputs);
    const at::Tensor out = RoomFor(outputs);
    Check(muster_all_to_all_v(comm, in.data_ptr(), sent.data(), out.data_ptr(), expected.data(),
                              as.dtype));
    PutBack(out, outputs);
  });
}

}  // namespace muster_torch
