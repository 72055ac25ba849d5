#include "proto/base/limits.h"
#include "proto/wire/convert_parts.h"

namespace muster {

void SetDrills(const std::vector<DrillOrder>& drills, v1::Directive* wire) {
  for (const DrillOrder& drill : drills) {
    v1::DrillOrder* one = wire->add_drills();
    one->set_seq(drill.seq);
    one->set_kind(static_cast<v1::DrillKind>(ChoiceToWire(drill.kind)));
    one->set_worker(drill.worker.value);
    one->set_delay(absl::ToInt64Nanoseconds(drill.delay));
    one->set_length(absl::ToInt64Nanoseconds(drill.length));
  }
}

std::vector<DrillOrder> DrillsOf(const v1::Directive& wire, FieldChecker& check) {
  std::vector<DrillOrder> out;
  check.Bound("drills", static_cast<size_t>(wire.drills_size()), 0, kDrillsMax);
  for (const v1::DrillOrder& one : wire.drills()) {
    if (!check.ok()) {
      break;
    }
    DrillOrder& drill = out.emplace_back();
    drill.seq = one.seq();
    drill.kind = check.Choice("drills.kind", one.kind(), DrillKind::kSlow);
    drill.worker.value = check.Number("drills.worker", one.worker(), 0, kWorkersPerNodeMax - 1);
    drill.delay = check.Time("drills.delay", one.delay());
    drill.length = check.Time("drills.length", one.length());
    if (drill.delay > kDrillLengthMax || drill.length > kDrillLengthMax) {
      check.Fail("drills", "longer than an hour");
    }
  }
  return out;
}

}  // namespace muster
