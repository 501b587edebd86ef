// device_calls.cu - what the driver itself defines: printf, assert, malloc and free.
#ifndef __CUDACC_RTC__ // which knows printf, assert and malloc by itself
#include <cassert>
#include <cstdio>
#endif


extern "C" __global__ void say(const char *name, int *counts)
{
    int t = threadIdx.x;
    if (t == 3)
        counts[0] = printf("%s has %d threads, %5.2f|%-6s|%c|%08x|%lld|%llu|%%|%e|%+d|%*d|%hd|%p\n", name, (int)blockDim.x,
                           3.14159, "ab", 'z', 0xbeefu, -5000000000ll, 18446744073709551615ull, 12345.678, 7, 6, 42,
                           (short)-9, (void *)0x1234);
    if (t == 4)
        counts[1] = printf("no arguments\n");
}

extern "C" __global__ void check(const int *values, int most)
{
    assert(values[threadIdx.x] < most);
}

struct node { int value; node *next; };

// A list a thread, built and taken apart.
extern "C" __global__ void lists(int *out, int count)
{
    node *head = nullptr;
    int sum = 0;
    for (int i = 0; i < count; i++) {
        node *n = (node *)malloc(sizeof(node));
        n->value = i * (int)threadIdx.x;
        n->next = head;
        head = n;
    }
    while (head) {
        node *n = head;
        sum += n->value;
        head = n->next;
        free(n);
    }
    int *words = new int[threadIdx.x + 1];
    words[threadIdx.x] = sum;
    out[threadIdx.x] = words[threadIdx.x];
    delete[] words;
}
