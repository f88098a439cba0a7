package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestParseResident(t *testing.T) {
	for _, test := range []struct {
		name, status string
		want         int64
		ok           bool
	}{
		{"as Linux writes it", "Name:\tposthaste\nVmHWM:\t  9 kB\nVmRSS:\t   123 kB\nRssAnon:\t 1 kB\n", 123 << 10, true},
		{"last line without end", "VmRSS: 1 kB", 1 << 10, true},
		{"kernel thread", "Name:\tkworker\n", 0, false},
		{"no number", "VmRSS:\tmany kB\n", 0, false},
		{"another unit", "VmRSS:\t1 MB\n", 0, false},
		{"empty", "", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, ok := parseResident([]byte(test.status)); got != test.want || ok != test.ok {
				t.Errorf("parseResident = %d, %v, want %d, %v", got, ok, test.want, test.ok)
			}
		})
	}
}

func FuzzParseResident(f *testing.F) {
	f.Add([]byte("VmRSS:\t   123 kB\n"))
	f.Add([]byte("VmRSS:\t-1 kB\nVmRSS: 99999999999999999999 kB"))
	f.Fuzz(func(t *testing.T, status []byte) {
		if size, ok := parseResident(status); size < 0 || !ok && size != 0 {
			t.Errorf("parseResident(%q) = %d, %v", status, size, ok)
		}
	})
}

func TestParseProcessorTime(t *testing.T) {
	for _, test := range []struct {
		name, stat string
		want       time.Duration
		ok         bool
	}{
		{"as Linux writes it", "7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 123 45 6 7 20 0 1 0", 1680 * time.Millisecond, true},
		{"cut", "7 (a) S 1 7 7 0 -1 4194560 9 0 0 0 123", 0, false},
		{"no number", "7 (a) S 1 7 7 0 -1 4194560 9 0 0 0 12x 45 6", 0, false},
		{"more than there is", "7 (a) S 1 7 7 0 -1 4194560 9 0 0 0 999999999999 45 6", 0, false},
		{"empty", "", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, ok := parseProcessorTime([]byte(test.stat)); got != test.want || ok != test.ok {
				t.Errorf("parseProcessorTime = %s, %v, want %s, %v", got, ok, test.want, test.ok)
			}
		})
	}
}

func FuzzParseProcessorTime(f *testing.F) {
	f.Add([]byte("7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 123 45 6 7 20 0 1 0"))
	f.Add([]byte(") S 1 7 7 0 -1 4194560 9 0 0 0 274877906943 274877906943"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		if spent, ok := parseProcessorTime(stat); spent < 0 || !ok && spent != 0 {
			t.Errorf("parseProcessorTime(%q) = %s, %v", stat, spent, ok)
		}
	})
}

func TestDirectorySize(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "within"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"a": 1000, "b": 0, "within/c": 23} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := directorySize(dir); got != 1023 || err != nil {
		t.Errorf("directorySize = %d, %v, want 1023", got, err)
	}
	if _, err := directorySize(filepath.Join(dir, "missing")); err == nil {
		t.Error("directorySize of a missing directory = nil, want an error")
	}
}

func TestTimeSyncs(t *testing.T) {
	dir := t.TempDir()
	times, err := timeSyncs(filepath.Join(dir, "sync"), 3)
	if err != nil || len(times) != 3 {
		t.Fatalf("timeSyncs = %v, %v, want three times", times, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("timeSyncs left %v behind", left)
	}
	if _, err := timeSyncs(filepath.Join(dir, "missing", "sync"), 3); err == nil {
		t.Error("timeSyncs in a missing directory = nil, want an error")
	}
}
