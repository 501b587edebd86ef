/* ptxpack.h - everything an application needs, in one include. */
#ifndef PTXPACK_H
#define PTXPACK_H
#include "status.h"
#include "cache.h"
#include "expand.h"
#include "registry.h"
#include "driver.h"
#include "loader.h"
#include "layout.h"
#include "tensor.h"
#include "atom.h"
#include "copy_atom.h"
#include "tiled.h"
#include "wgmma.h"
#include "tma.h"
#include "banks.h"
#include "dtype.h"
#include "instance.h"
#include "attention.h"
#include "vector.h"
#endif
