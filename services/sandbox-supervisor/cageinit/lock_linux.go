package main

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
)

// prepareForker prepares the thread that forks commands, while it has rights. Commands inherit its Landlock domain, its
// empty bounding set, its securebits and its time namespace, if the kernel has them. The other threads stay outside the
// domain: they must signal processes in it, and no process in it can signal or trace them.
func prepareForker(plan blueprint.Plan) error {
	if err := landlock(plan); err != nil {
		return &layerError{layer: blueprint.LayerLandlock, err: err}
	}
	_ = unix.Unshare(unix.CLONE_NEWTIME) // best effort, without an offset: it only shares less with the host
	for c := uintptr(0); c < 64; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL {
			break // the previous capability was the last one
		}
		if err != nil {
			return &layerError{layer: blueprint.LayerCaps, err: fmt.Errorf("bounding set: %w", err)}
		}
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, securebits, 0, 0, 0); err != nil {
		return &layerError{layer: blueprint.LayerCaps, err: fmt.Errorf("securebits: %w", err)}
	}
	return nil
}

// securebits: root is not special, a change of user changes no capability, no capability is kept or raised, and all of
// this is locked.
const securebits = 0xef

// lock drops all rights of all threads: capabilities, privileges by exec, and system calls.
func lock(plan blueprint.Plan) error {
	unix.Umask(0o022)
	none := unix.Rlimit{}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &none); err != nil {
		return err
	}
	if plan.Processes > 0 {
		most := unix.Rlimit{Cur: uint64(plan.Processes), Max: uint64(plan.Processes)}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &most); err != nil {
			return err
		}
	}
	if err := dropCapabilities(); err != nil {
		return &layerError{layer: blueprint.LayerCaps, err: err}
	}
	// The filter applies to all threads, and also sets no_new_privs on them. A separate call for all threads would stop
	// them again and cost as much as many calls.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return &layerError{layer: blueprint.LayerNoNew, err: err}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // some of the calls above have reset it
		return err
	}
	if err := filter(plan.Filter); err != nil {
		return &layerError{layer: blueprint.LayerSeccomp, err: err}
	}
	return nil
}

func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	var pin runtime.Pinner
	pin.Pin(&header)
	pin.Pin(&data)
	defer pin.Unpin()
	if err := all(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}

// filter installs a system call filter for all threads.
func filter(program []byte) error {
	const instruction = 8
	if len(program) == 0 || len(program)%instruction != 0 {
		return fmt.Errorf("a filter of %d bytes", len(program))
	}
	prog := unix.SockFprog{
		Len:    uint16(len(program) / instruction),
		Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0])),
	}
	_, _, errno := unix.Syscall(
		unix.SYS_SECCOMP,
		unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)),
	)
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}

// all makes a system call in every thread.
func all(trap, a1, a2, a3 uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall6(trap, a1, a2, a3, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
