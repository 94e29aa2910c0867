/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "tests/support/cmocka.h"

struct fixture {
    char folder[64];
};

static void path_in(const struct fixture *fixture, const char *name, char out[128])
{
    (void)snprintf(out, 128, "%s/%s", fixture->folder, name);
}

static void put_file(const struct fixture *fixture, const char *name, const char *bytes, size_t len)
{
    char path[128];
    path_in(fixture, name, path);
    kw_cleanup_file FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
}

static size_t count_files(const struct fixture *fixture)
{
    DIR *dir = opendir(fixture->folder);
    assert_non_null(dir);
    size_t n = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    (void)closedir(dir);
    return n;
}

static int set_up(void **state)
{
    static struct fixture fixture;
    (void)snprintf(fixture.folder, sizeof(fixture.folder), "/tmp/kwatt-file-XXXXXX");
    *state = &fixture;
    return mkdtemp(fixture.folder) != NULL ? 0 : -1;
}

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        (void)unlink(path);
        return;
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char child[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (snprintf(child, sizeof(child), "%s/%s", path, entry->d_name) < (int)sizeof(child))
            remove_tree(child);
    }
    (void)closedir(dir);
    (void)rmdir(path);
}

static int tear_down(void **state)
{
    const struct fixture *fixture = *state;
    remove_tree(fixture->folder);
    return 0;
}

static void read_at_fits_or_says_so(void **state)
{
    const struct fixture *fixture = *state;
    put_file(fixture, "five", "12345", 5);
    kw_cleanup_close int folder = open(fixture->folder, O_RDONLY | O_DIRECTORY);
    char buffer[6];
    assert_int_equal(kw_file_read_at(folder, "five", buffer, 6), 5);
    assert_string_equal(buffer, "12345");
    assert_int_equal(kw_file_read_at(folder, "five", buffer, 5), -EFBIG);
    assert_int_equal(kw_file_read_at(folder, "five", buffer, 0), -EFBIG);
    assert_int_equal(kw_file_read_at(folder, "none", buffer, 6), -ENOENT);
    assert_int_equal(kw_file_read_at(AT_FDCWD, fixture->folder, buffer, 6), -EISDIR);
}

static void procfs_is_read_to_its_end(void **state)
{
    (void)state;
    char small[8];
    assert_int_equal(kw_file_read_at(AT_FDCWD, "/proc/self/status", small, sizeof(small)), -EFBIG);
    char big[65536];
    ssize_t n = kw_file_read_at(AT_FDCWD, "/proc/self/status", big, sizeof(big));
    assert_true(n > 100);
    assert_int_equal(strlen(big), n);
}

static void pread_starts_at_the_beginning_each_time(void **state)
{
    const struct fixture *fixture = *state;
    char path[128];
    char buffer[16];
    put_file(fixture, "value", "one", 3);
    path_in(fixture, "value", path);
    kw_cleanup_close int fd = open(path, O_RDONLY);
    assert_int_equal(kw_file_pread(fd, buffer, sizeof(buffer)), 3);
    put_file(fixture, "value", "three", 5);
    assert_int_equal(kw_file_pread(fd, buffer, sizeof(buffer)), 5);
    assert_string_equal(buffer, "three");
    assert_int_equal(kw_file_pread(-1, buffer, sizeof(buffer)), -EBADF);
}

static void u64_files_are_strict(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *text;
        size_t len;
        int rc;
        uint64_t value;
    } cases[] = {
        {"42\n", 3, 0, 42},
        {"42", 2, 0, 42},
        {"42 \t\r\n\n", 7, 0, 42},
        {"18446744073709551615\n", 21, 0, UINT64_MAX},
        {"18446744073709551616\n", 21, -EBADMSG, 0},
        {"", 0, -ENODATA, 0},
        {"\n", 1, -ENODATA, 0},
        {"-1\n", 3, -EBADMSG, 0},
        {" 42\n", 4, -EBADMSG, 0},
        {"42\0\n", 4, -EBADMSG, 0},
        {"4 2\n", 4, -EBADMSG, 0},
        {"max\n", 4, -EBADMSG, 0},
        {"0000000000000000000000000000000000000000000000000000000000000000000001", 70, -EBADMSG, 0},
    };
    kw_cleanup_close int folder = open(fixture->folder, O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        put_file(fixture, "number", cases[i].text, cases[i].len);
        uint64_t value = 7;
        int rc = kw_file_read_u64_at(folder, "number", &value);
        if (rc != cases[i].rc || value != (rc == 0 ? cases[i].value : 7))
            fail_msg("case %zu: %d, %llu", i, rc, (unsigned long long)value);
    }
    uint64_t value = 7;
    assert_int_equal(kw_file_read_u64_at(folder, "none", &value), -ENOENT);
}

static void slurp_holds_its_limit(void **state)
{
    const struct fixture *fixture = *state;
    static char bytes[40000];
    memset(bytes, 'x', sizeof(bytes));
    put_file(fixture, "big", bytes, sizeof(bytes));
    char path[128];
    path_in(fixture, "big", path);

    kw_cleanup_free char *all = NULL;
    size_t len = 0;
    assert_int_equal(kw_file_slurp(path, sizeof(bytes), &all, &len), 0);
    assert_int_equal(len, sizeof(bytes));
    assert_memory_equal(all, bytes, len);
    assert_int_equal(all[len], '\0');

    char *untouched = path;
    assert_int_equal(kw_file_slurp(path, sizeof(bytes) - 1, &untouched, &len), -EFBIG);
    assert_int_equal(kw_file_slurp(path, 0, &untouched, &len), -EFBIG);
    assert_int_equal(kw_file_slurp(fixture->folder, 100, &untouched, &len), -EISDIR);
    assert_int_equal(kw_file_slurp("/nowhere/at/all", 100, &untouched, &len), -ENOENT);
    assert_int_equal(kw_file_slurp("/dev/zero", 100000, &untouched, NULL), -EFBIG);
    assert_ptr_equal(untouched, path);

    put_file(fixture, "empty", "", 0);
    path_in(fixture, "empty", path);
    kw_cleanup_free char *empty = NULL;
    assert_int_equal(kw_file_slurp(path, 0, &empty, NULL), 0);
    assert_string_equal(empty, "");
}

static void write_atomic_replaces_and_sets_the_mode(void **state)
{
    const struct fixture *fixture = *state;
    char path[128];
    path_in(fixture, "state", path);
    mode_t old_mask = umask(077);
    assert_int_equal(kw_file_write_atomic(path, "first", 5, 0644), 0);
    (void)umask(old_mask);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(kw_file_write_atomic(path, "2nd", 3, 0600), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    kw_cleanup_free char *bytes = NULL;
    assert_int_equal(kw_file_slurp(path, 100, &bytes, NULL), 0);
    assert_string_equal(bytes, "2nd");
    assert_int_equal(count_files(fixture), 1);
}

static void a_failed_write_leaves_nothing(void **state)
{
    const struct fixture *fixture = *state;
    char path[128];
    path_in(fixture, "folder", path);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(kw_file_write_atomic(path, "x", 1, 0644), -EISDIR);
    assert_int_equal(count_files(fixture), 1);
    path_in(fixture, "missing/file", path);
    assert_int_equal(kw_file_write_atomic(path, "x", 1, 0644), -ENOENT);
}

static void a_full_disk_keeps_the_old_content(void **state)
{
    const struct fixture *fixture = *state;
    char path[128];
    path_in(fixture, "state", path);
    assert_int_equal(kw_file_write_atomic(path, "old", 3, 0644), 0);

    /* A file size limit stops a write in its middle, as a full disk does, and needs no root. */
    static char bytes[65536];
    struct rlimit old_limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old_action;
    assert_int_equal(sigaction(SIGXFSZ, &ignore, &old_action), 0);
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = old_limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int rc = kw_file_write_atomic(path, bytes, sizeof(bytes), 0644);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
    assert_int_equal(sigaction(SIGXFSZ, &old_action, NULL), 0);

    assert_int_equal(rc, -EFBIG);
    assert_int_equal(count_files(fixture), 1);
    kw_cleanup_free char *content = NULL;
    assert_int_equal(kw_file_slurp(path, 100, &content, NULL), 0);
    assert_string_equal(content, "old");
}

struct pipe_writer {
    int fd;
    pthread_t reader;
};

static void on_signal(int number)
{
    (void)number;
}

/* Byte by byte, with a signal to the reader before each: short reads and EINTR. */
static void *write_slowly(void *arg)
{
    const struct pipe_writer *writer = arg;
    for (const char *p = "interrupted"; *p != '\0'; p++) {
        (void)pthread_kill(writer->reader, SIGUSR1);
        (void)usleep(1000);
        (void)!write(writer->fd, p, 1);
    }
    (void)close(writer->fd);
    return NULL;
}

static void interrupted_and_short_reads_go_on(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    struct sigaction old_action;
    assert_int_equal(sigaction(SIGUSR1, &action, &old_action), 0);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    struct pipe_writer writer = {.fd = fds[1], .reader = pthread_self()};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_slowly, &writer), 0);
    char path[32];
    (void)snprintf(path, sizeof(path), "/dev/fd/%d", fds[0]);
    char *text = NULL;
    size_t len = 0;
    int rc;
    do { /* open(2) of a pipe may be interrupted too, before any byte is taken */
        rc = kw_file_slurp(path, 64, &text, &len);
    } while (rc == -EINTR);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &old_action, NULL), 0);
    (void)close(fds[0]);
    assert_int_equal(rc, 0);
    assert_int_equal(len, 11);
    assert_string_equal(text, "interrupted");
    free(text);
}

static void paths_join_with_one_slash(void **state)
{
    (void)state;
    static const struct {
        const char *root, *path, *joined;
    } cases[] = {
        {"/", "/proc/stat", "/proc/stat"},
        {"/", "proc", "/proc"},
        {"", "proc", "/proc"},
        {"/a/b", "c", "/a/b/c"},
        {"/a/b/", "/c", "/a/b/c"},
        {"a//", "//c/d", "a/c/d"},
        {"a", "", "a/"},
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        char out[32];
        assert_int_equal(kw_path_join(out, sizeof(out), cases[i].root, cases[i].path), 0);
        assert_string_equal(out, cases[i].joined);
    }
    char out[6] = "same";
    assert_int_equal(kw_path_join(out, 5, "ab", "cd"), -ENAMETOOLONG);
    assert_string_equal(out, "same");
    assert_int_equal(kw_path_join(out, 6, "ab", "cd"), 0);
    assert_string_equal(out, "ab/cd");
}

static void mkdir_p_makes_parents_and_is_repeatable(void **state)
{
    const struct fixture *fixture = *state;
    char path[128];
    path_in(fixture, "a//b/c/", path);
    assert_int_equal(kw_mkdir_p(path, 0700), 0);
    assert_int_equal(kw_mkdir_p(path, 0700), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(kw_mkdir_p("/", 0755), 0);

    put_file(fixture, "file", "", 0);
    path_in(fixture, "file", path);
    assert_int_equal(kw_mkdir_p(path, 0755), -ENOTDIR);
    path_in(fixture, "file/below", path);
    assert_int_equal(kw_mkdir_p(path, 0755), -ENOTDIR);
    assert_int_equal(kw_mkdir_p("/proc/kwatt-cannot", 0755), -ENOENT);
}

static void a_pipe_does_not_hang_its_reader(void **state)
{
    char path[128], buffer[16];

    path_in(*state, "pipe", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(kw_file_read_at(AT_FDCWD, path, buffer, sizeof(buffer)), 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(read_at_fits_or_says_so),
        TEST(procfs_is_read_to_its_end),
        TEST(pread_starts_at_the_beginning_each_time),
        TEST(u64_files_are_strict),
        TEST(slurp_holds_its_limit),
        TEST(a_pipe_does_not_hang_its_reader),
        TEST(write_atomic_replaces_and_sets_the_mode),
        TEST(a_failed_write_leaves_nothing),
        TEST(a_full_disk_keeps_the_old_content),
        TEST(interrupted_and_short_reads_go_on),
        TEST(paths_join_with_one_slash),
        TEST(mkdir_p_makes_parents_and_is_repeatable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
