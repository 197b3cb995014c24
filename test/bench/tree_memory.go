package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// treeInterval is the time between two samples of a process tree's memory.
const treeInterval = 100 * time.Millisecond

// treeMemory is the memory of a process tree in bytes. RSS counts a page once for each process that maps it, as ps and
// top do; PSS divides it among them.
type treeMemory struct{ rss, pss int64 }

// peakMemory samples the memory of the daemon's process tree until ctx ends and returns the largest sums.
func (d *daemon) peakMemory(ctx context.Context) (treeMemory, error) {
	return peakMemoryOf(ctx, d.cmd.Process.Pid)
}

// peakMemoryOf is peakMemory for the tree below any process.
func peakMemoryOf(ctx context.Context, root int) (peak treeMemory, err error) {
	tick := time.NewTicker(treeInterval)
	defer tick.Stop()
	for {
		now, err := treeMemoryOf(root)
		if err != nil {
			return peak, err
		}
		peak.rss, peak.pss = max(peak.rss, now.rss), max(peak.pss, now.pss)
		select {
		case <-ctx.Done():
			return peak, nil
		case <-tick.C:
		}
	}
}

func treeMemoryOf(root int) (sum treeMemory, err error) {
	tree, err := processesOf(root)
	if err != nil {
		return sum, err
	}
	for _, p := range tree {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "smaps_rollup"))
		if err != nil {
			continue // the process has ended
		}
		sum.rss += rollup(data, "Rss:")
		sum.pss += rollup(data, "Pss:")
	}
	return sum, nil
}

// rollup returns a row of smaps_rollup in bytes, 0 if it is missing.
func rollup(data []byte, key string) int64 {
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			kb, _ := strconv.ParseInt(strings.Fields(string(rest))[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// process is one process of the daemon's tree.
type process struct {
	pid  int
	used time.Duration // the CPU time, with that of ended children
}

// processesOf returns a process and every process below it.
func processesOf(root int) ([]process, error) {
	children := map[int][]process{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var tree []process
	for _, path := range stats {
		pid, ppid, ticks, ok := readStat(path)
		if !ok {
			continue
		}
		p := process{pid, time.Duration(ticks) * time.Second / 100} // USER_HZ is 100 on every Linux that kaged supports
		children[ppid] = append(children[ppid], p)
		if pid == root {
			tree = append(tree, p)
		}
	}
	if len(tree) == 0 {
		return nil, fmt.Errorf("the process %d has ended", root)
	}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i].pid]...)
	}
	return tree, nil
}
