// An agent that is only messages. Everything on the test's thread.
#pragma once

#include <uv.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/master_client.h"
#include "tests/proto/wire/test_loop.h"

namespace muster {

// Does what it is told: joins, beats after every directive, holds the round it should hold.
class TestAgent {
 public:
  TestAgent(uv_loop_t* loop, MasterClientOptions options, Join join)
      : client_(loop, std::move(options)), join_(std::move(join)) {}

  void Start() {
    MasterLink::Callbacks callbacks;
    callbacks.on_up = [this] {
      ++ups;
      client_.link().Send(join_);
    };
    callbacks.on_down = [this](std::string why, bool told) {
      downs.push_back(std::move(why));
      told_to_wait += told ? 1 : 0;
    };
    callbacks.on_try_failed = [this](std::string why) { tries_failed.push_back(std::move(why)); };
    callbacks.on_fence = [this](FencePiece piece) { fences.push_back(std::move(piece)); };
    callbacks.on_modex = [this](ModexNote note) { modexes.push_back(std::move(note)); };
    callbacks.on_message = [this](const MasterMessage& message) { OnMessage(message); };
    client_.link().Start(std::move(callbacks));
  }
  void Stop() {
    client_.link().Stop([this] { stopped = true; });
  }
  void SendBeat() {
    ++beat_.seq;
    client_.link().Send(beat_);
  }
  // All its workers end with 0.
  void EndWell() {
    beat_.phase = AgentPhase::kReady;
    beat_.workers_alive = 0;
    for (uint32_t i = 0; i < assignment.workers; ++i) {
      WorkerExit exit;
      exit.local_rank.value = i;
      exit.rank.value = assignment.rank_first.value + i;
      beat_.exits.push_back(exit);
    }
    SendBeat();
  }
  void EnterFence(uint32_t number, const std::string& text) {
    FencePiece piece;
    piece.node = beat_.node;
    piece.incarnation = beat_.incarnation;
    piece.round = beat_.round;
    piece.number = number;
    piece.size = text.size();
    piece.bytes = text;
    client_.link().SendFence(std::move(piece));
  }
  // To itself, as to a node of its round that has asked.
  void AnswerModex(const std::string& bytes) {
    ModexNote note;
    note.node = beat_.node;
    note.incarnation = beat_.incarnation;
    note.round = beat_.round;
    note.answers = true;
    note.bytes = bytes;
    client_.link().SendModex(std::move(note));
  }
  MasterClient& client() { return client_; }
  Join& join() { return join_; }

  int ups = 0;
  std::vector<std::string> downs;
  size_t told_to_wait = 0;  // of downs
  std::vector<std::string> tries_failed;
  std::vector<std::string> refusals;
  std::vector<Admitted> admissions;
  std::vector<Directive> directives;
  std::vector<FencePiece> fences;
  std::vector<ModexNote> modexes;
  std::vector<std::string> notices;
  Assignment assignment;
  bool running = false;
  bool end = false;
  bool stopped = false;
  bool stops = true;  // its workers, when it is told to

 private:
  void OnMessage(MasterMessage message) {
    if (const auto* refused = std::get_if<Refused>(&message)) {
      refusals.push_back(refused->reason);
    } else if (const auto* admitted = std::get_if<Admitted>(&message)) {
      admissions.push_back(*admitted);
      beat_.node = admitted->node;
      beat_.incarnation = admitted->incarnation;
      beat_.store_port = join_.store_port;
      SendBeat();
    } else {
      OnDirective(std::get<Directive>(std::move(message)));
    }
  }
  void OnDirective(const Directive& directive) {
    directives.push_back(directive);
    notices.insert(notices.end(), directive.notices.begin(), directive.notices.end());
    if (directive.wanted == Wanted::kRun && !running) {
      running = true;
      assignment = directive.assignment;
      beat_.phase = AgentPhase::kRunning;
      beat_.exits.clear();
      beat_.round = directive.round;
      beat_.workers_alive = assignment.workers;
      SendBeat();
    } else if ((directive.wanted == Wanted::kStop || directive.wanted == Wanted::kEnd) && running &&
               stops) {
      running = false;
      beat_.phase = AgentPhase::kReady;
      beat_.workers_alive = 0;
      for (uint32_t i = 0; i < assignment.workers; ++i) {
        WorkerExit exit;
        exit.local_rank.value = i;
        exit.rank.value = assignment.rank_first.value + i;
        exit.kind = ExitKind::kSignaled;
        exit.code = 9;
        exit.stopped_by_us = true;
        beat_.exits.push_back(exit);
      }
      SendBeat();
    } else if (directive.wanted == Wanted::kEnd && !end) {
      end = true;
      client_.link().Send(Leave{beat_.node, beat_.incarnation, ""});
    }
  }

  MasterClient client_;
  Join join_;
  Beat beat_;
};

}  // namespace muster
