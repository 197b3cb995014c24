package bus_test

import (
	"fmt"
	"testing"

	"kaged.dev/pkg/bus"
	"kaged.dev/pkg/testkit/bustest"
)

// BenchmarkPublish publishes with one writer that waits for each answer.
func BenchmarkPublish(b *testing.B) {
	w := newWriter(bustest.Server(b).Frames(b, bus.FramesConfig{}), "S1")
	b.ReportAllocs()
	for b.Loop() {
		w.mustPublish(b, 1)
	}
}

// BenchmarkPublishParallel publishes for many sessions at once.
func BenchmarkPublishParallel(b *testing.B) {
	f := bustest.Server(b).Frames(b, bus.FramesConfig{})
	names := make(chan string, 1000)
	for i := range cap(names) {
		names <- fmt.Sprint("S", i)
	}
	b.SetParallelism(50)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		w := newWriter(f, <-names)
		for pb.Next() {
			w.mustPublish(b, 1)
		}
	})
}

// BenchmarkLive measures a frame from its writer to a reader.
func BenchmarkLive(b *testing.B) {
	server := bustest.Server(b)
	c := collect(b, server.Frames(b, bus.FramesConfig{}))
	w := newWriter(server.Frames(b, bus.FramesConfig{}), "S1")
	b.ReportAllocs()
	for b.Loop() {
		w.mustPublish(b, 1)
		<-c.batches
	}
}

// BenchmarkReplay reads a channel's last frames among many others, as a reconnected socket does.
func BenchmarkReplay(b *testing.B) {
	f := bustest.Server(b).Frames(b, bus.FramesConfig{})
	writers := make([]*writer, 50)
	for i := range writers {
		writers[i] = newWriter(f, fmt.Sprint("S", i))
	}
	for range 400 {
		for _, w := range writers {
			w.mustPublish(b, 1)
		}
	}
	for _, n := range []int64{1, 10, 400} {
		b.Run(fmt.Sprint("last", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				got, err := replayed(b, f, "S7", 400-n+1, 400)
				if err != nil || int64(len(got)) != n {
					b.Fatalf("%d frames: %v", len(got), err)
				}
			}
		})
	}
}
