package cli

import (
	"io/fs"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
)

// withProgress runs work that fills one directory from another, and shows progress on a terminal
// by their sizes, because another process may do the work.
func withProgress(t terminal, from, to string, work func() error) error {
	if !isTerminal(t.Err) {
		return work()
	}
	const interval = 200 * time.Millisecond
	bar := newBar(t.Err, int(sizeOf(from)), "bytes")
	done := make(chan error, 1)
	go func() { done <- work() }()
	for {
		select {
		case err := <-done:
			_ = bar.Clear()
			return err
		case <-time.After(interval):
			show(bar, sizeOf(to))
		}
	}
}

// show moves a bar, but not to its end, which is for work to report.
func show(bar *progressbar.ProgressBar, size int64) {
	_ = bar.Set64(min(size, bar.GetMax64()-1))
}

// sizeOf returns the bytes of the files of a directory that can be read; files come and go.
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
