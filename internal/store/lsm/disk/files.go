package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNotEmpty means that something would be written where there is something already.
var ErrNotEmpty = errors.New("it is there already and not empty")

// RemoveEmpty removes a directory, or returns ErrNotEmpty. It need not be there.
func RemoveEmpty(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(names) > 0:
		return fmt.Errorf("%s: %w", dir, ErrNotEmpty)
	}
	return fs.Remove(dir)
}

// partialDir is the directory in which Restore keeps what was not checked yet. It is in the one that is
// filled, which may be where a disk is mounted.
const partialDir = ".partial"

// Restore copies the files of a directory to another one, which must not be there or be empty, if check
// finds the copy good. Until then it is in partialDir; otherwise it is removed again.
func Restore(fs vfs.FS, from, to string, check func(dir string) (good bool, err error)) error {
	made, err := makeEmpty(fs, to)
	if err != nil {
		return err
	}
	partial := fs.PathJoin(to, partialDir)
	if err := fs.RemoveAll(partial); err != nil {
		return err
	}
	if err = copyFiles(fs, from, partial); err != nil {
		err = fmt.Errorf("copy the backup: %w", err)
	}
	good := false
	if err == nil {
		good, err = check(partial)
	}
	if good && err == nil {
		return errors.Join(moveUp(fs, partial, to), syncDirectory(fs, fs.PathDir(to)))
	}
	err = errors.Join(err, fs.RemoveAll(partial))
	if made {
		err = errors.Join(err, fs.Remove(to))
	}
	return err
}

// makeEmpty makes a directory and reports whether it did, or returns ErrNotEmpty. A
// restore that was broken off may have left its part.
func makeEmpty(fs vfs.FS, dir string) (made bool, err error) {
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return true, fs.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return false, err
	}
	if len(names) > 0 && !slices.Equal(names, []string{partialDir}) {
		return false, fmt.Errorf("%s: %w", dir, ErrNotEmpty)
	}
	return false, nil
}

// moveUp moves the files of a store to the parent directory, in three passes. If it is
// interrupted, the parent looks like a store that has lost its database, which opening detects,
// and never like an empty one.
func moveUp(fs vfs.FS, from, to string) error {
	names, err := fs.List(from)
	if err != nil {
		return err
	}
	for pass := range 3 {
		for _, name := range names {
			if passOf(name) != pass {
				continue
			}
			if err := fs.Rename(fs.PathJoin(from, name), fs.PathJoin(to, name)); err != nil {
				return err
			}
		}
		if err := syncDirectory(fs, to); err != nil {
			return err
		}
	}
	return errors.Join(fs.Remove(from), syncDirectory(fs, to))
}

// passOf returns the pass that moves a file: the guard, which records that there is a store, in
// the first, and the manifest marker, which makes the files a database, in the last.
func passOf(name string) int {
	switch {
	case name == GuardFile:
		return 0
	case strings.HasPrefix(name, "marker.manifest."):
		return 2
	}
	return 1
}

// copyFiles copies the files of a directory, and returns when they are durable.
func copyFiles(fs vfs.FS, from, to string) error {
	if err := fs.MkdirAll(to, 0o700); err != nil {
		return err
	}
	names, err := fs.List(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := copyFile(fs, fs.PathJoin(from, name), fs.PathJoin(to, name)); err != nil {
			return err
		}
	}
	return syncDirectory(fs, to)
}

func copyFile(fs vfs.FS, from, to string) (err error) {
	if info, err := fs.Stat(from); err != nil || !info.Mode().IsRegular() {
		return err // nothing of the store is in directories and sockets
	}
	source, err := fs.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Sync(), target.Close())
}

func syncDirectory(fs vfs.FS, dir string) error {
	directory, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
