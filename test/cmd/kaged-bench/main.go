// Command kaged-bench measures a built kaged and prints a table: name, value, unit, floor, peer, ratio, target, met. A
// peer's value is marked as measured in this run or as quoted from another day. Standard error has the machine, its
// load before and after, and the spread of each sample. The exit code is 0 even if a target is missed; `make bench`
// runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"kaged.dev/test/bench"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kaged-bench:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) > 2 && os.Args[1] == "peer" { // as which the measurements start this program again
		return bench.ServePeer(context.Background(), os.Stdin, os.Stdout, os.Args[2], os.Args[3:]...)
	}
	kaged := flag.String("kaged", "bin/kaged", "the kaged to measure")
	which := flag.String("run", ".", "which measurements, by a regular expression")
	jsonPath := flag.String("json", "", "write the figures to this file too")
	flag.Parse()
	re, err := regexp.Compile(*which)
	if err != nil {
		return err
	}
	binary, err := filepath.Abs(*kaged)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprintln(os.Stderr, "bench: before:", bench.Machine())
	bench.WriteTSVHeader(os.Stdout)
	figures, err := bench.Run(ctx, bench.Options{
		Kaged: binary, Run: re, Progress: os.Stderr, Measured: func(figures []bench.Figure) {
			bench.WriteTSV(os.Stdout, figures)
			bench.WriteSpread(os.Stderr, figures)
		},
	})
	fmt.Fprintln(os.Stderr, "bench: after:", bench.Machine())
	if err != nil {
		return err
	}
	if *jsonPath == "" {
		return nil
	}
	f, err := os.Create(*jsonPath)
	if err != nil {
		return err
	}
	defer f.Close()
	return bench.WriteJSON(f, figures)
}
