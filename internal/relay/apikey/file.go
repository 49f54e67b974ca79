package apikey

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"lockstep/internal/clip"
	"lockstep/internal/secret"
)

// Bounds of a file.
const (
	maxBytes   = 1 << 20
	maxHolders = 1000 // each is a label of the metrics
	maxHashes  = 4    // of one holder
	maxMethods = 200  // of one holder
	maxName    = 64
	maxLimit   = 1_000_000_000
)

const hashPrefix = "sha256:"

// File is the content of a file of keys. The zero File is none: there are no keys then.
type File struct {
	name  string
	lines []line
}

// line is one holder as the file has it.
type line struct {
	Name    string
	Hashes  []secret.Hash
	Calls   int // per minute; 0: any number
	Weight  int // per minute; 0: any
	Methods []string
}

// UnmarshalText reads the file of a name. A relative one is in the working directory.
func (f *File) UnmarshalText(name []byte) error {
	read, err := readFile(string(name))
	if err != nil {
		return err
	}
	*f = read
	return nil
}

// MarshalText returns the file's name.
func (f File) MarshalText() ([]byte, error) { return []byte(f.name), nil }

// Given tells whether there is a file, which may be one without keys.
func (f File) Given() bool { return f.name != "" }

// Holders is how many there are.
func (f File) Holders() int { return len(f.lines) }

// Patterns returns the methods that the lines name, each once, with a holder who has it.
func (f File) Patterns() map[string]string {
	found := map[string]string{}
	for _, l := range f.lines {
		for _, pattern := range l.Methods {
			found[pattern] = l.Name
		}
	}
	return found
}

func readFile(name string) (File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return File{}, err
	}
	if !info.Mode().IsRegular() { // another kind may never end
		return File{}, fmt.Errorf("%s is not a regular file", name)
	}
	in, err := os.Open(name)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = in.Close() }()
	text, err := clip.ReadAll(in, maxBytes)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", name, err)
	}
	lines, err := parse(text)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", name, err)
	}
	return File{name: name, lines: lines}, nil
}

// parse reads the lines and returns all mistakes at once. No error repeats what stands in the place of a hash: a
// token may have been put there by mistake.
func parse(text []byte) (lines []line, err error) {
	const maxErrors = 20
	var errs []error
	names, hashes := map[string]bool{}, map[secret.Hash]bool{}
	in := bufio.NewScanner(bytes.NewReader(text))
	in.Buffer(nil, maxBytes+1)
	for number := 1; in.Scan() && len(errs) < maxErrors; number++ {
		content, _, _ := strings.Cut(in.Text(), "#")
		words := strings.Fields(content)
		if len(words) == 0 {
			continue
		}
		l, err := parseLine(words)
		if err == nil {
			err = unique(l, names, hashes)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		lines = append(lines, l)
	}
	errs = append(errs, in.Err())
	if len(lines) > maxHolders {
		errs = append(errs, fmt.Errorf("%d keys: the maximum is %d", len(lines), maxHolders))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return lines, nil
}

// unique notes a line's name and hashes and refuses those that another line has.
func unique(l line, names map[string]bool, hashes map[secret.Hash]bool) error {
	if names[l.Name] {
		return fmt.Errorf("the name %q is there twice; several keys of one holder are hashes of one line, separated by commas", l.Name)
	}
	names[l.Name] = true
	for _, h := range l.Hashes {
		if hashes[h] {
			return errors.New("a hash is there twice")
		}
		hashes[h] = true
	}
	return nil
}

func parseLine(words []string) (l line, err error) {
	if !goodName(words[0]) {
		return l, fmt.Errorf("a name has 1 to %d letters, digits and the signs . : _ -, and does not begin as a key does", maxName)
	}
	l.Name = words[0]
	if len(words) < 2 {
		return l, fmt.Errorf("want a hash after the name %q; `lockstep keys new %s` prints one", l.Name, l.Name)
	}
	if l.Hashes, err = parseHashes(words[1]); err != nil {
		return l, err
	}
	given := map[string]bool{}
	for _, word := range words[2:] {
		name, value, ok := strings.Cut(word, "=")
		switch {
		case !ok:
			return l, errors.New("want calls=NUMBER, weight=NUMBER or methods=NAME,NAME after the hash")
		case given[name]:
			return l, errors.New("one of calls, weight and methods is there twice")
		}
		given[name] = true
		switch name {
		case "calls":
			l.Calls, err = parseLimit(name, value)
		case "weight":
			l.Weight, err = parseLimit(name, value)
		case "methods":
			l.Methods, err = parseMethods(value)
		default:
			err = errors.New("want calls=NUMBER, weight=NUMBER or methods=NAME,NAME after the hash")
		}
		if err != nil {
			return l, err
		}
	}
	return l, nil
}

// goodName refuses tokens, too, which no error and no label may show.
func goodName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.HasPrefix(name, tokenPrefix) && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-:", r)
	})
}

func parseHashes(word string) (hashes []secret.Hash, err error) {
	for text := range strings.SplitSeq(word, ",") {
		digits, ok := strings.CutPrefix(text, hashPrefix)
		raw, err := hex.DecodeString(digits)
		if !ok || err != nil || len(raw) != len(secret.Hash{}) {
			return nil, fmt.Errorf("want %s and %d hexadecimal digits as the hash, several separated by commas", hashPrefix, 2*len(secret.Hash{}))
		}
		h := secret.Hash(raw)
		hashes = append(hashes, h)
	}
	if len(hashes) > maxHashes {
		return nil, fmt.Errorf("%d hashes: the maximum is %d", len(hashes), maxHashes)
	}
	return hashes, nil
}

func parseLimit(name, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxLimit {
		return 0, fmt.Errorf("%s: want a number of 1 to %d; without it there is no limit", name, maxLimit)
	}
	return n, nil
}

func parseMethods(value string) ([]string, error) {
	methods := strings.Split(value, ",")
	if len(methods) > maxMethods {
		return nil, fmt.Errorf("%d methods: the maximum is %d", len(methods), maxMethods)
	}
	for _, m := range methods {
		stem := strings.TrimSuffix(m, "*")
		if !goodName(stem) {
			return nil, errors.New("methods: want names such as eth_call, or a beginning and a star such as eth_*, separated by commas")
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods), nil
}

// New makes a token for a holder, and the line for the file.
func New(name string) (token secret.String, text string, err error) {
	if !goodName(name) {
		return "", "", fmt.Errorf("a name has 1 to %d letters, digits and the signs . : _ -, and does not begin as a key does", maxName)
	}
	token = secret.NewToken(tokenPrefix)
	h := secret.HashOf(token.Reveal())
	return token, name + " " + hashPrefix + hex.EncodeToString(h[:]), nil
}

// CheckLine tells what is wrong with a line of a file.
func CheckLine(text string) error {
	_, err := parse([]byte(text))
	return err
}
