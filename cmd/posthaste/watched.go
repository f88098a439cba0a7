package main

import (
	"io/fs"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
)

// watched does a work that fills one directory with what another has, and shows how far
// it is where that is a terminal: by the size of what is there, since the work may be
// another process's.
func watched(t terminal, from, to string, work func() error) error {
	if !isTerminal(t.Err) {
		return work()
	}
	const glance = 200 * time.Millisecond
	bar := newBar(t.Err, int(sizeOf(from)), "bytes")
	done := make(chan error, 1)
	go func() { done <- work() }()
	for {
		select {
		case err := <-done:
			_ = bar.Clear()
			return err
		case <-time.After(glance):
			show(bar, sizeOf(to))
		}
	}
}

// show moves a bar, but not to its end: the work is done when it says so.
func show(bar *progressbar.ProgressBar, size int64) {
	_ = bar.Set64(min(size, bar.GetMax64()-1)) // for the eye only
}

// sizeOf returns how many bytes the files of a directory have, as far as they can be
// seen: they come and go.
func sizeOf(directory string) (size int64) {
	_ = filepath.WalkDir(directory, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}
