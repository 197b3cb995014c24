//go:build linux

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"kaged.dev/pkg/testkit/escape"
)

// attacks are the cases by id; the files of this folder register theirs.
var attacks = map[string]func() *report{}

func add(cases map[string]func() *report) {
	for id, attack := range cases {
		if attacks[id] != nil {
			fatal(id + " is there twice")
		}
		attacks[id] = attack
	}
}

// report collects the results of a case's attempts.
type report struct {
	needed          bool // the case needs every attempt to succeed
	reached, failed []string
}

// attack begins a case in which every attempt must fail.
func attack() *report { return &report{} }

// control begins a case in which every attempt must succeed.
func control() *report { return &report{needed: true} }

// try records an attempt that succeeded if err is nil.
func (r *report) try(what string, err error) {
	if err == nil {
		r.reached = append(r.reached, what)
	} else {
		r.failed = append(r.failed, what+": "+reason(err))
	}
}

// saw records whether a target was found.
func (r *report) saw(what string, found bool) {
	if found {
		r.reached = append(r.reached, what)
	} else {
		r.failed = append(r.failed, "no "+what)
	}
}

// entered records a system call that must not be reached: any answer except "not permitted" and "not implemented" comes
// from code behind the filter.
func (r *report) entered(what string, err error) {
	if err == nil || !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
		r.reached = append(r.reached, fmt.Sprintf("%s: %v", what, err))
	} else {
		r.failed = append(r.failed, what+": "+reason(err))
	}
}

func (r *report) result(id string) escape.Result {
	outcome, detail := escape.Contained, r.failed
	switch {
	case r.needed && len(r.failed) > 0:
		outcome = escape.Broken
	case r.needed:
		outcome, detail = escape.Works, r.reached
	case len(r.reached) > 0:
		outcome, detail = escape.Escaped, r.reached
	case len(r.failed) == 0:
		outcome, detail = escape.Broken, []string{"nothing was tried"}
	}
	text := strings.Join(detail, "; ")
	return escape.Result{ID: id, Outcome: outcome, Detail: text[:min(len(text), 1000)]}
}

func reason(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			return "killed by " + unix.SignalName(s.Signal())
		}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// kept keeps the arguments of system calls in memory.
var kept []any

// call makes a system call. Its arguments are ints, pointers, and strings and slices of bytes, which are passed by
// address.
func call(number uintptr, args ...any) error {
	_, err := result(number, args...)
	return err
}

// result is call with the result of the system call.
func result(number uintptr, args ...any) (uintptr, error) {
	kept = args
	var a [6]uintptr
	for i, arg := range args {
		switch arg := arg.(type) {
		case int:
			a[i] = uintptr(arg)
		case uintptr:
			a[i] = arg
		case string:
			text, err := unix.BytePtrFromString(arg)
			if err != nil {
				fatal(err)
			}
			kept = append(kept, text)
			a[i] = uintptr(unsafe.Pointer(text))
		case []byte:
			a[i] = uintptr(unsafe.Pointer(unsafe.SliceData(arg)))
		case unsafe.Pointer:
			a[i] = uintptr(arg)
		default:
			fatal(fmt.Sprintf("an argument is a %T", arg))
		}
	}
	r, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return r, errno
	}
	return r, nil
}
