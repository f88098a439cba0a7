package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const megabyte = 1e6 // bytes

// residentMemory returns the bytes of memory that a process holds now. ok is
// false where the system does not tell as Linux does.
func residentMemory(pid int) (size int64, ok bool) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, false
	}
	return parseResident(status)
}

// parseResident finds the line "VmRSS:  1234 kB".
func parseResident(status []byte) (size int64, ok bool) {
	for line := range bytes.Lines(status) {
		words := bytes.Fields(line)
		if len(words) != 3 || string(words[0]) != "VmRSS:" || string(words[2]) != "kB" {
			continue
		}
		kibibytes, err := strconv.ParseUint(string(words[1]), 10, 53)
		if err != nil {
			return 0, false
		}
		return int64(kibibytes) << 10, true
	}
	return 0, false
}

// processorTime returns what a process has used until now. ok is false where the system
// does not tell as Linux does.
func processorTime(pid int) (spent time.Duration, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	return parseProcessorTime(stat)
}

// parseProcessorTime adds up the fields utime and stime, which are in hundredths of a second.
// They are the 12th and the 13th behind the name, which ends with the last parenthesis.
func parseProcessorTime(stat []byte) (spent time.Duration, ok bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, false
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseUint(string(field), 10, 38) // of which two are a Duration still
		if err != nil {
			return 0, false
		}
		spent += time.Duration(ticks) * (time.Second / 100)
	}
	return spent, true
}

// directorySize adds up the sizes of the files under dir.
func directorySize(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, item fs.DirEntry, err error) error {
		if err != nil || item.IsDir() {
			return err
		}
		info, err := item.Info()
		if err != nil {
			return err
		}
		size += info.Size()
		return nil
	})
	return size, err
}
