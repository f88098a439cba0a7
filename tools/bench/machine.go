package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// Machine is what the numbers of a report depend on.
type Machine struct {
	OS         string  `json:"os"`
	Arch       string  `json:"arch"`
	Processors int     `json:"processors"`
	Go         string  `json:"go"`
	SyncP50    float64 `json:"syncP50Ms"` // of writing 4 KiB to a file in the data directory and syncing it
	SyncP99    float64 `json:"syncP99Ms"`
}

// syncs is how many are timed: enough for a 99th percentile.
const syncs = 200

// examine describes the machine and times the disk under dir.
func examine(dir string) (Machine, error) {
	times, err := timeSyncs(filepath.Join(dir, "sync"), syncs)
	if err != nil {
		return Machine{}, fmt.Errorf("time syncs in %s: %w", dir, err)
	}
	return Machine{
		OS:         runtime.GOOS,
		Arch:       runtime.GOARCH,
		Processors: runtime.NumCPU(),
		Go:         runtime.Version(),
		SyncP50:    milliseconds(quantile(times, 0.50)),
		SyncP99:    milliseconds(quantile(times, 0.99)),
	}, nil
}

// timeSyncs appends blocks to a new file, syncs each, and returns how long each
// took, ascending. It leaves no file behind.
func timeSyncs(path string, count int) (times []time.Duration, err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(path)) }()
	block := make([]byte, 4<<10)
	for range count {
		start := time.Now()
		if _, err := file.Write(block); err != nil {
			return nil, err
		}
		if err := file.Sync(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times, nil
}
