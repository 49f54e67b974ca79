package show

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/console"
	"lockstep/devnet/ledger"
	"lockstep/internal/clip"
)

// Bounds of what is read from a folder of artifacts.
const (
	maxArtifacts   = 4_000
	maxArtifact    = 16 << 20 // bytes of one file
	artifactsAgain = time.Second
	maxShownText   = 40  // bytes of one value
	maxShownLine   = 300 // bytes of a call
)

// Names knows contracts by what a compiler left in a folder: the artifacts of Hardhat or Foundry, or files with ABIs.
// Contracts are mostly compiled after the network has started, so the folder is looked through again, file by file as
// they change, when something comes up that has no name yet.
type Names struct {
	folders []string

	looked    time.Time
	read      map[string]time.Time // when the files changed that were read, by path
	contracts map[string]*artifact // by the end of their code
	methods   map[[4]byte]*abi.Method
	errors    map[[4]byte]*abi.Error
}

// artifact is one contract of a folder.
type artifact struct {
	name string
	abi  abi.ABI
}

// NewNames takes the folder to read; without one, those that the tools use for a project in this directory.
func NewNames(folder string) (*Names, error) {
	n := &Names{read: map[string]time.Time{}, contracts: map[string]*artifact{}, methods: map[[4]byte]*abi.Method{}, errors: map[[4]byte]*abi.Error{}}
	if folder != "" {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("--abi: %q is no folder", folder)
		}
		n.folders = []string{folder}
	} else {
		n.folders = projectFolders(".")
	}
	n.enterKnown()
	return n, nil
}

// projectFolders are where Hardhat and Foundry leave what they compile, if there is a project of theirs.
func projectFolders(of string) (folders []string) {
	if configs, _ := filepath.Glob(filepath.Join(of, "hardhat.config.*")); len(configs) > 0 {
		folders = append(folders, filepath.Join(of, "artifacts"))
	}
	if _, err := os.Stat(filepath.Join(of, "foundry.toml")); err == nil {
		folders = append(folders, filepath.Join(of, "out"))
	}
	return folders
}

func (n *Names) enter(c *artifact) {
	for _, m := range c.abi.Methods {
		n.methods[[4]byte(m.ID)] = &m
	}
	for _, e := range c.abi.Errors {
		n.errors[[4]byte(e.ID[:4])] = &e
	}
}

// again looks for files that are new or have changed, but not all the time.
func (n *Names) again() {
	if len(n.folders) == 0 || time.Since(n.looked) < artifactsAgain {
		return
	}
	n.looked = time.Now()
	for _, folder := range n.folders {
		_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil // it may be written right now
			case len(n.read) >= maxArtifacts:
				return fs.SkipAll
			case d.IsDir() && (d.Name() == "build-info" || d.Name() == "node_modules"):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".dbg.json"):
				return nil
			}
			info, err := d.Info()
			if err != nil || info.Size() > maxArtifact || info.ModTime().Equal(n.read[path]) {
				return nil
			}
			n.read[path] = info.ModTime()
			n.file(path)
			return nil
		})
	}
}

// file reads one artifact, or an ABI alone. What is neither is passed over.
func (n *Names) file(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	var file struct {
		Name string          `json:"contractName"`
		ABI  json.RawMessage `json:"abi"`
		Code json.RawMessage `json:"deployedBytecode"`
	}
	if json.Unmarshal(text, &file) != nil {
		file.ABI = text
	}
	c := &artifact{name: file.Name}
	c.name = cmp.Or(c.name, strings.TrimSuffix(filepath.Base(path), ".json"))
	if len(file.ABI) == 0 {
		return
	}
	if c.abi, err = abi.JSON(bytes.NewReader(file.ABI)); err != nil {
		return
	}
	n.enter(c)
	var object struct {
		Object string `json:"object"`
	}
	if json.Unmarshal(file.Code, &object.Object) != nil {
		_ = json.Unmarshal(file.Code, &object)
	}
	if end := codeEnd(common.FromHex(object.Object)); end != "" {
		n.contracts[end] = c
	}
}

// codeEnd is the end of a contract's code, where the compiler puts a digest of what it compiled and how. That much of the
// code is the same wherever it is deployed; immutable values and libraries are before it.
func codeEnd(code []byte) string {
	const least = 34 // bytes: a digest, and how long all this is
	if len(code) < 2 {
		return ""
	}
	size := int(binary.BigEndian.Uint16(code[len(code)-2:])) + 2
	if size < least || size > len(code) {
		return ""
	}
	return string(code[len(code)-size:])
}

// enterKnown takes what the page knows without an ABI. A reason and a panic are told in words of their own.
func (n *Names) enterKnown() {
	known := &artifact{abi: abi.ABI{Methods: map[string]abi.Method{}, Errors: map[string]abi.Error{}}}
	for kind, text := range console.Signatures() {
		switch name, inputs := signature(text); {
		case kind == "function":
			known.abi.Methods[text] = abi.NewMethod(name, name, abi.Function, "", false, false, inputs, nil)
		case kind == "error" && name != "Error" && name != "Panic":
			known.abi.Errors[text] = abi.NewError(name, inputs)
		}
	}
	n.enter(known)
}

// signature reads a name and arguments without tuples, with their names or without.
func signature(text string) (string, abi.Arguments) {
	name, list, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	var arguments abi.Arguments
	for argument := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' }) {
		of, label, _ := strings.Cut(strings.TrimSpace(argument), " ")
		kind, _ := abi.NewType(of, "", nil)
		arguments = append(arguments, abi.Argument{Name: label, Type: kind})
	}
	return name, arguments
}

// contract names what is at an address, empty for what is not known.
func (n *Names) contract(view *ledger.View, at common.Address) *artifact {
	account, ok := view.AccountByAddress(at)
	if !ok || account.Contract == nil {
		return nil
	}
	end := codeEnd(account.Contract.Runtime)
	if end == "" {
		return nil
	}
	if n.contracts[end] == nil {
		n.again()
	}
	return n.contracts[end]
}

// call names the function that is called, and what it is given.
func (n *Names) call(of *artifact, input []byte) string {
	const selector = 4
	if len(input) < selector {
		return ""
	}
	id := [selector]byte(input[:selector])
	if n.methods[id] == nil {
		n.again()
	}
	method := n.methods[id]
	if of != nil {
		if own, err := of.abi.MethodById(id[:]); err == nil {
			method = own
		}
	}
	prefix := ""
	if of != nil {
		prefix = of.name + "."
	}
	if method == nil {
		return fmt.Sprintf("%s0x%x", prefix, id)
	}
	return prefix + filled(method.RawName, method.Inputs, input[selector:])
}

// fault names the error that revert data carry, empty if it is not known.
func (n *Names) fault(data []byte) string {
	const selector = 4
	if len(data) < selector {
		return ""
	}
	id := [selector]byte(data[:selector])
	if n.errors[id] == nil {
		n.again()
	}
	if e := n.errors[id]; e != nil {
		return filled(e.Name, e.Inputs, data[selector:])
	}
	return ""
}

// filled is a name with values: transfer(to 0x…, amount 5).
func filled(name string, arguments abi.Arguments, data []byte) string {
	values, err := arguments.Unpack(data)
	if err != nil || len(values) != len(arguments) {
		return clean(name) + "(?)"
	}
	var parts []string
	for i, v := range values {
		text := shownValue(v)
		if label := arguments[i].Name; label != "" {
			text = clean(label) + " " + text
		}
		parts = append(parts, text)
	}
	return clip.Text(clean(name)+"("+strings.Join(parts, ", ")+")", maxShownLine)
}

func shownValue(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", clip.Text(v, maxShownText))
	case []byte:
		return clip.Text(hexutil.Encode(v), maxShownText)
	default:
		return clean(clip.Text(consoleValue(v), 2*maxShownText))
	}
}
