package app

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// forgetProgram takes the pages of the program's file out of this process. The start reads most of them, once. Those
// that are in use come back by themselves, from the cache of the system, and the others do not count as this
// process's memory any more. Pages that are not as in the file stay.
func forgetProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	var start, end uint64
	for line := range bytes.Lines(maps) {
		fields := strings.Fields(string(line))
		switch {
		case len(fields) == 6 && strings.Contains(fields[0], "-"):
			start, end = 0, 0
			if fields[1][:2] == "r-" && fields[5] == program { // nobody can have written to it
				start, end = addresses(fields[0])
			}
		case fields[0] == "Anonymous:" && fields[1] == "0" && end > start:
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED); errno != 0 {
				return fmt.Errorf("madvise: %w", errno)
			}
		}
	}
	return nil
}

// addresses reads 00400000-02012000, or returns zeros.
func addresses(text string) (start, end uint64) {
	from, to, _ := strings.Cut(text, "-")
	start, err := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	if err != nil || err2 != nil {
		return 0, 0
	}
	return start, end
}
