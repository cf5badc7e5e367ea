;;; drive.el --- What the batch tests of Emacs do as a user  -*- lexical-binding: t -*-

(require 'eglot)

(setq make-backup-files nil
      create-lockfiles nil)

(defun drive-wait (what ready)
  "Let processes speak until READY answers; fail with WHAT after a minute."
  (let ((deadline (+ (float-time) 60)))
    (while (not (funcall ready))
      (when (> (float-time) deadline)
        (error "Never came: %s\nbuffer: %S" what (buffer-string)))
      (accept-process-output nil 0.02))))

(defun drive-open (file)
  "Visit FILE and wait until the language server manages it."
  (find-file file)
  ;; `eglot-ensure' connects after the command, and batch mode has no command loop.
  (run-hooks 'post-command-hook)
  (drive-wait "the language server" #'eglot-managed-p)
  (goto-char (point-max)))

(defun drive-complete ()
  "Ask for a completion, as \\`C-M-i' does, until one is inserted."
  (let ((before (buffer-string)))
    (drive-wait "a suggestion"
                (lambda ()
                  (completion-at-point)
                  (not (equal before (buffer-string)))))))

(defun drive-candidates ()
  "The labels of what completion offers at point."
  (pcase-let ((`(,start ,end ,table . ,_) (eglot-completion-at-point)))
    (all-completions (buffer-substring start end) table)))

(defun drive-choose (first second)
  "Wait until completion offers FIRST and SECOND, and take FIRST, as a completion package does."
  (let (offered)
    (drive-wait (format "%S and %S" first second)
                (lambda ()
                  (setq offered (drive-candidates))
                  (and (member first offered) (member second offered))))
    (let* ((capf (eglot-completion-at-point))
           (start (nth 0 capf))
           (chosen (car (member first (all-completions (buffer-substring start (point))
                                                       (nth 2 capf))))))
      (delete-region start (point))
      (insert chosen)
      (funcall (plist-get (nthcdr 3 capf) :exit-function) chosen 'finished))))

(defun drive-announce (encoding)
  "Announce ENCODING to the server as the only one of positions."
  (cl-defmethod eglot-client-capabilities :around ((_server eglot-lsp-server))
    (let ((capabilities (cl-call-next-method)))
      (plist-put (plist-get capabilities :general) :positionEncodings (vector encoding))
      capabilities)))

(defun drive-shut-down ()
  "Shut the server down and wait until its process is gone."
  (let ((process (jsonrpc--process (eglot-current-server))))
    (eglot-shutdown (eglot-current-server))
    (drive-wait "the end of the server" (lambda () (not (process-live-p process))))))

;; The server asks for the settings when it is told of a change; its answer to a later request tells
;; that it has asked.
(defun drive-configure (configuration)
  "Make CONFIGURATION the workspace's and tell the server."
  (setq-default eglot-workspace-configuration configuration)
  (let ((server (eglot-current-server)))
    (eglot-signal-didChangeConfiguration server)
    (jsonrpc-request server :workspace/executeCommand
                     '(:command "composer.status" :arguments []))))

;;; drive.el ends here
