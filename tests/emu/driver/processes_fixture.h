/* processes_fixture.h - what the tests of several processes share: two processes with a driver each, which exchange what
 * a test gives them to say, and end the test if one of them fails or takes too long. */
#ifndef PROCESSES_FIXTURE_H
#define PROCESSES_FIXTURE_H
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/support/unit.h"

enum { LIMIT = 60 }; /* seconds of a process: only one that hangs takes so long */

static int other_process; /* a socket */

static inline void say_bytes(const void *from, size_t bytes)
{
    assert_int_equal(send(other_process, from, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

static inline void hear_bytes(void *to, size_t bytes)
{
    assert_int_equal(recv(other_process, to, bytes, MSG_WAITALL), (ssize_t)bytes);
}

#define say(value)  say_bytes(&(value), sizeof(value))
#define hear(value) hear_bytes(&(value), sizeof(value))

/* Each process calls it: both go on when both have come so far. */
static inline void meet(void)
{
    char mark = '.';
    say(mark);
    hear(mark);
}

/* Ends the other process, and returns when nobody can reach what it had open any more. */
static inline void kill_and_wait(pid_t process)
{
    char mark;
    assert_int_equal(kill(process, SIGKILL), 0);
    assert_int_equal(recv(other_process, &mark, 1, 0), 0);
}

/* A failed assertion of the child ends it by a signal; it never returns into the list of tests. */
static inline pid_t begin_process(void (*role)(void), int socket, int others)
{
    const pid_t child = fork();
    if (child != 0)
        return child;
    close(others);
    other_process = socket;
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    alarm(LIMIT);
    role();
    fflush(NULL);
    _exit(0);
}

static inline void end_process(pid_t process, int expected_signal)
{
    int status = 0;
    assert_int_equal(waitpid(process, &status, 0), process);
    if (expected_signal ? !WIFSIGNALED(status) || WTERMSIG(status) != expected_signal
                        : !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("a process has ended with status 0x%x", (unsigned int)status);
}

/* Runs both roles to their end; `first` ends by the signal, if one is given. */
static inline void two_processes(void (*first)(void), void (*second)(void), int signal_of_first)
{
    int sockets[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    const pid_t a = begin_process(first, sockets[0], sockets[1]);
    const pid_t b = begin_process(second, sockets[1], sockets[0]);
    close(sockets[0]);
    close(sockets[1]);
    end_process(a, signal_of_first);
    end_process(b, 0);
}

/* The number of entries of a folder whose names, or the files that they are links to, contain the word. */
static inline int entries(const char *folder, const char *word)
{
    int            count = 0;
    char           path[512], target[256];
    struct dirent *entry;
    DIR           *d = opendir(folder);
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        const ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        count += strstr(entry->d_name, word) != NULL || strstr(target, word) != NULL;
    }
    closedir(d);
    return count;
}
#endif
