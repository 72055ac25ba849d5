/* Preloaded: the wall clock of this process is so many seconds ahead as the file of the name in
 * CLOCK_OFF says just now. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long seconds_off(void) {
  const char* path = getenv("CLOCK_OFF");
  const int kept = errno;
  const int file = path == 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  char text[32] = "";
  if (file >= 0) {
    (void)!read(file, text, sizeof(text) - 1);
    close(file);
  }
  errno = kept;
  return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec* at) {
  const int result = (int)syscall(SYS_clock_gettime, clock, at);
  if (result == 0 && clock == CLOCK_REALTIME) {
    at->tv_sec += seconds_off();
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
