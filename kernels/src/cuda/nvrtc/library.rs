//! One library of NVRTC: its functions, its version, and a compilation.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, PoisonError};

use libloading::Library as File;

/// The functions of the library. The results are numbers, because a newer library may return numbers that no list here
/// has; 0 is success.
struct Functions {
    add_source: unsafe extern "C" fn(
        *mut *mut c_void,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_uint,
    compile: unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_uint,
    destroy: unsafe extern "C" fn(*mut *mut c_void) -> c_uint,
    error_text: unsafe extern "C" fn(c_uint) -> *const c_char,
    log: Output,
    cubin: Output,
    ptx: Output,
}

/// The two functions that return a part of a compilation's output: its size in bytes, and its bytes.
struct Output {
    size: unsafe extern "C" fn(*mut c_void, *mut usize) -> c_uint,
    bytes: unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_uint,
}

/// A loaded library.
pub struct Library {
    functions: Functions,
    pub version: (i32, i32),
    /// The architectures that the library knows, ascending; `90` means sm_90.
    pub architectures: Vec<i32>,
    /// Serializes compilations, because the library may hold locks and much memory.
    turn: Mutex<()>,
    /// The functions are valid as long as the file is loaded.
    _file: File,
}

/// A failed compilation.
pub struct Failed {
    /// The text of the library's error.
    pub error: String,
    /// The compiler's log.
    pub log: String,
}

impl Library {
    /// Loads the library with this name, which the dynamic linker looks for. `None` if there is no such library. The
    /// error says why the library cannot be used.
    pub fn open(name: &str) -> Option<Result<Library, String>> {
        // SAFETY: loading NVRTC has no effect other than that its functions can be called
        let file = unsafe { File::new(name) }.ok()?;
        Some(Library::of(file).map_err(|why| format!("{name}: {why}")))
    }

    fn of(file: File) -> Result<Library, String> {
        /// Finds a function, whose type the caller names.
        fn find<F: Copy>(file: &File, name: &str) -> Result<F, String> {
            // SAFETY: the types in this file are those of NVRTC's header, which has not changed them since CUDA 11.2
            unsafe { file.get::<F>(name.as_bytes()) }.map(|found| *found).map_err(|error| error.to_string())
        }
        let output = |size, bytes| Ok::<_, String>(Output { size: find(&file, size)?, bytes: find(&file, bytes)? });
        let functions = Functions {
            add_source: find(&file, "nvrtcCreateProgram")?,
            compile: find(&file, "nvrtcCompileProgram")?,
            destroy: find(&file, "nvrtcDestroyProgram")?,
            error_text: find(&file, "nvrtcGetErrorString")?,
            log: output("nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?,
            cubin: output("nvrtcGetCUBINSize", "nvrtcGetCUBIN")?,
            ptx: output("nvrtcGetPTXSize", "nvrtcGetPTX")?,
        };
        let version_of: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_uint = find(&file, "nvrtcVersion")?;
        let count_of: unsafe extern "C" fn(*mut c_int) -> c_uint = find(&file, "nvrtcGetNumSupportedArchs")?;
        let list: unsafe extern "C" fn(*mut c_int) -> c_uint = find(&file, "nvrtcGetSupportedArchs")?;
        let (mut version, mut count) = ((0, 0), 0);
        // SAFETY: the call writes two integers of this function
        functions.check(unsafe { version_of(&mut version.0, &mut version.1) })?;
        // SAFETY: the call writes one integer
        functions.check(unsafe { count_of(&mut count) })?;
        let mut architectures = vec![0; count.max(0) as usize];
        // SAFETY: the vector has room for the number of architectures that the call above returned
        functions.check(unsafe { list(architectures.as_mut_ptr()) })?;
        architectures.sort_unstable();
        Ok(Library { functions, version, architectures, turn: Mutex::default(), _file: file })
    }

    /// Compiles a text with these options. Returns a cubin, or PTX that ends in a zero byte.
    pub fn compile(&self, text: &CStr, options: &[String], binary: bool) -> Result<Vec<u8>, Failed> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = |error| Failed { error, log: String::new() };
        let options: Vec<CString> =
            options.iter().map(|option| CString::new(option.as_str()).expect("options are words")).collect();
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let program = Program::new(&self.functions, text).map_err(failed)?;
        // SAFETY: the program was made and is not yet destroyed, and the call reads this many options
        let compiled = unsafe { (self.functions.compile)(program.handle, options.len() as c_int, options.as_ptr()) };
        self.functions.check(compiled).map_err(|error| Failed { error, log: program.log() })?;
        program.output(if binary { &self.functions.cubin } else { &self.functions.ptx }).map_err(failed)
    }
}

impl Functions {
    fn check(&self, code: c_uint) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function returns a text that lives as long as the library, for every number
        let text = unsafe { CStr::from_ptr((self.error_text)(code)) };
        Err(text.to_string_lossy().into_owned())
    }
}

/// A program in compilation.
struct Program<'a> {
    handle: *mut c_void,
    functions: &'a Functions,
}

impl Program<'_> {
    fn new<'a>(functions: &'a Functions, text: &CStr) -> Result<Program<'a>, String> {
        let mut handle = null_mut();
        // SAFETY: the call writes the handle and copies the text; it reads no headers, whose number is 0
        functions
            .check(unsafe { (functions.add_source)(&mut handle, text.as_ptr(), null(), 0, null(), null()) })
            .map(|()| Program { handle, functions })
    }

    fn output(&self, output: &Output) -> Result<Vec<u8>, String> {
        let mut size = 0;
        // SAFETY: the program was made, and the call writes one integer
        self.functions.check(unsafe { (output.size)(self.handle, &mut size) })?;
        let mut bytes = vec![0u8; size];
        // SAFETY: the vector has room for the number of bytes that the call above returned
        self.functions.check(unsafe { (output.bytes)(self.handle, bytes.as_mut_ptr().cast::<c_char>()) })?;
        Ok(bytes)
    }

    /// Returns the compiler's log of the program.
    fn log(&self) -> String {
        let log = self.output(&self.functions.log).unwrap_or_default();
        String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned()
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: `new` made the program, and only this call destroys it
        let _ = unsafe { (self.functions.destroy)(&mut self.handle) };
    }
}
