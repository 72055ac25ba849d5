#include "agent/probe/name_facts.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "agent/io/thread.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

ResolvedName ResolveOne(const std::string& name) {
  ResolvedName out;
  out.name = name;
  const absl::Time began = BootNow();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &raw);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(raw, [](addrinfo* list) {
    if (list != nullptr) {
      freeaddrinfo(list);
    }
  });
  out.took_s = absl::ToDoubleSeconds(BootNow() - began);
  if (error != 0) {
    out.error = gai_strerror(error);
    return out;
  }
  for (const addrinfo* i = raw; i != nullptr; i = i->ai_next) {
    char text[INET6_ADDRSTRLEN] = "";
    const void* address =
        i->ai_family == AF_INET
            ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(i->ai_addr)->sin_addr)
            : static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(i->ai_addr)->sin6_addr);
    inet_ntop(i->ai_family, address, text, sizeof(text));
    if (std::find(out.addresses.begin(), out.addresses.end(), text) == out.addresses.end()) {
      out.addresses.emplace_back(text);
    }
  }
  return out;
}

}  // namespace

std::vector<ResolvedName> ResolveNames(const std::vector<std::string>& names, absl::Time deadline) {
  std::vector<ResolvedName> out(names.size());
  std::vector<std::future<ResolvedName>> answers;
  for (const std::string& name : names) {
    // Of this function and of the thread: whichever stays longer.
    auto promise = std::make_shared<std::promise<ResolvedName>>();
    answers.push_back(promise->get_future());
    absl::StatusOr<Thread> thread =
        Thread::Start("muster-resolve", [promise, name] { promise->set_value(ResolveOne(name)); });
    if (thread.ok()) {
      thread->Detach();
    } else {
      promise->set_value({name, {}, std::string(thread.status().message()), 0});
    }
  }
  const absl::Time began = BootNow();
  for (size_t i = 0; i < names.size(); ++i) {
    const absl::Duration left = std::max(deadline - BootNow(), absl::ZeroDuration());
    if (answers[i].wait_for(absl::ToChronoNanoseconds(left)) == std::future_status::ready) {
      out[i] = answers[i].get();
    } else {
      out[i] = {names[i], {}, "no answer", absl::ToDoubleSeconds(BootNow() - began)};
    }
  }
  return out;
}

}  // namespace muster
