// What libmuster shows: all else in it is hidden, and so never meets the program's own names.
#pragma once

#define MUSTER_EXPORT [[gnu::visibility("default")]]
