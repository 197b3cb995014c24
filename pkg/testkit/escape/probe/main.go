//go:build linux

// Command probe tries to escape from the cage it runs in. Its arguments are the cases, each tried in a separate
// process:
//
//	probe case ID...   prints a [escape.Result] for each
//	probe list         prints the ids it knows
//
// It uses only system calls, so that a case tests the kernel and not a library.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"kaged.dev/pkg/testkit/escape"
)

// patience is the time limit of one case.
const patience = 10 * time.Second

// params are the targets.
var params escape.Params

// roles are the functions of the probe's own children, by name.
var roles = map[string]func(){
	"nap":         nap,
	"true":        func() {},
	"victim":      victim,
	"plant":       plant,
	"orphans":     orphans,
	"bomb":        bomb,
	"hog":         hog,
	"fill":        fill,
	"fill-mapped": fillMapped,
	"inodes":      inodes,
	"reach":       reach,
	"deaf":        deaf,
}

func main() {
	// This must be the first statement, for cases about inherited descriptors.
	inherited = openFiles()
	runtime.LockOSThread()
	if text := os.Getenv(escape.Variable); text != "" {
		if err := json.Unmarshal([]byte(text), &params); err != nil {
			fatal(err)
		}
	}
	if len(os.Args) < 2 {
		fatal("say what to try")
	}
	if role, ok := roles[os.Args[1]]; ok {
		role()
		return
	}
	if os.Args[1] == "list" {
		for _, id := range slices.Sorted(maps.Keys(attacks)) {
			fmt.Println(id)
		}
		return
	}
	if params.Uncaged && os.Getuid() == 0 {
		fatal("without a cage nothing is tried as root")
	}
	switch os.Args[1] {
	case "case":
		for _, id := range os.Args[2:] {
			say(try(id))
		}
	case "one":
		say(attacks[os.Args[2]]().result(os.Args[2]))
	default:
		fatal("there is no " + os.Args[1])
	}
}

// nap keeps a process alive for a minute.
func nap() { time.Sleep(time.Minute) }

func fatal(why any) {
	fmt.Fprintln(os.Stderr, "probe:", why)
	os.Exit(2)
}

func say(r escape.Result) {
	line, err := json.Marshal(r)
	if err != nil {
		fatal(err)
	}
	os.Stdout.Write(append(line, '\n'))
}

// try makes an attempt in a separate process, the leader of a session without a terminal.
func try(id string) escape.Result {
	broken := func(why any) escape.Result {
		return escape.Result{ID: id, Outcome: escape.Broken, Detail: fmt.Sprint(why)}
	}
	if attacks[id] == nil {
		return broken("the probe has no such case")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "one", id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = time.Second
	var out, trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &trouble
	err := cmd.Run()
	var r escape.Result
	if line, _, ok := bytes.Cut(out.Bytes(), []byte("\n")); ok && json.Unmarshal(line, &r) == nil {
		return r
	}
	return broken(fmt.Sprintf("%v: %.300q %.300q", err, out.String(), trouble.String()))
}
