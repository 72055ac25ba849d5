/* Preloaded: the wall clock of this process is a day ahead. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* at) {
  const int result = (int)syscall(SYS_clock_gettime, clock, at);
  if (result == 0 && clock == CLOCK_REALTIME) {
    at->tv_sec += 24 * 3600;
  }
  return result;
}

int gettimeofday(struct timeval* at, void* zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != 0) {
    *at = now.tv_sec;
  }
  return now.tv_sec;
}
