package lsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNotEmpty is returned, wrapped, when something would be written where there is
// something already.
var ErrNotEmpty = errors.New("it is there already and not empty")

// Backup writes a copy of the store into a directory, which must not be there or be
// empty, while the store is used. All that was acknowledged before the call is in it.
// Tables are linked where the file system can, so that the copy takes little time and
// space at first; to survive the disk, it has to be brought elsewhere.
func (s *Store) Backup(ctx context.Context, to string) error {
	release, err := s.hold()
	if err != nil {
		return err
	}
	defer release()
	fs := s.guard.fs
	if err := removeEmpty(fs, to); err != nil {
		return err
	}
	if err := s.Ping(ctx); err != nil { // what nobody waits for is to be in it too
		return err
	}
	acknowledged := s.guard.acknowledged()
	if err := s.db.Checkpoint(to, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("back up to %s: %w", to, err)
	}
	copied := &guard{fs: fs, dir: to, commits: acknowledged}
	if err := copied.open(func(error) {}); err != nil {
		return fmt.Errorf("back up to %s: %w", to, err)
	}
	return copied.close()
}

// removeEmpty removes a directory, or returns ErrNotEmpty. It need not be there.
func removeEmpty(fs vfs.FS, dir string) error {
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

// Restore copies a backup to a directory, which must not be there or be empty, and
// checks the copy. Until it has been found whole it is beside its place, under the name
// with .partial behind it.
func Restore(from, to string, options Options) (Report, error) {
	options = options.withDefaults()
	fs := options.FS
	if current, err := pebble.Peek(from, fs); err != nil {
		return Report{}, fmt.Errorf("read the backup: %w", err)
	} else if !current.Exists {
		return Report{}, fmt.Errorf("%s is not a backup: there is no database in it", from)
	}
	if err := removeEmpty(fs, to); err != nil {
		return Report{}, err
	}
	partial := to + ".partial"
	if err := fs.RemoveAll(partial); err != nil {
		return Report{}, err
	}
	if err := copyFiles(fs, from, partial); err != nil {
		return Report{}, fmt.Errorf("copy the backup: %w", err)
	}
	report, err := Check(partial, options)
	if err != nil || len(report.Problems) > 0 {
		return report, errors.Join(err, fs.RemoveAll(partial))
	}
	return report, errors.Join(fs.Rename(partial, to), syncDirectory(fs, fs.PathDir(to)))
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
