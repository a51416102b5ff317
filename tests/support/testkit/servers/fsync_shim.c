/* Preloaded into a server: notes each fsync that has succeeded, one line "BYTES PATH" in $FSYNC_NOTES. BYTES is the size
 * of the file when the call began: what was written later may not be on the disk. $FSYNC_PAUSE_MS makes each call slow.
 * While the file $DISK_FULL exists, no write to another file succeeds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t (*real_write)(int, const void *, size_t);

static int noted(int fd, const char *name) {
    int (*original)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *notes = getenv("FSYNC_NOTES"), *pause = getenv("FSYNC_PAUSE_MS");
    struct stat before;
    int is_file = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
    if (is_file && pause) usleep(atoi(pause) * 1000);
    int result = original(fd);
    if (result != 0 || !is_file || !notes) return result;
    char link[64], path[4096], line[4200];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return result;
    path[length] = 0;
    int size = snprintf(line, sizeof line, "%lld %s\n", (long long)before.st_size, path);
    int out = open(notes, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (out < 0) return result;
    if (real_write(out, line, size) != size) abort();
    close(out);
    return result;
}

int fsync(int fd) { return noted(fd, "fsync"); }
int fdatasync(int fd) { return noted(fd, "fdatasync"); }

ssize_t write(int fd, const void *data, size_t size) {
    const char *full = getenv("DISK_FULL");
    struct stat file;
    if (full && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && access(full, F_OK) == 0) {
        errno = ENOSPC;
        return -1;
    }
    return real_write(fd, data, size);
}

__attribute__((constructor)) static void find(void) {
    real_write = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
}
